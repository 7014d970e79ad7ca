"""Duty: the worker's stored spans are sent to the collector, at least once, with the same ids."""

from collections.abc import Awaitable, Callable, Sequence

from services.dispatcher.checkpoints import spans_store
from services.dispatcher.checkpoints.spans_store import PendingSpan
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database, Transaction
from shared.settings import MIB

Send = Callable[[Sequence[PendingSpan]], Awaitable[None]]

EXPORT_BYTES_MAX = MIB
"""Well below what collectors take in one message, 4 MiB by default."""


class SpanExporter:
    """Sends what no collector has confirmed; `send` raises unless it was confirmed (C7)."""

    def __init__(self, database: Database, send: Send, settings: DispatcherSettings) -> None:
        self._database = database
        self._send = send
        self._page = settings.duty_batch_max

    async def tick(self) -> bool:
        """The oldest spans: locked, sent, marked; True when there may be more.

        A crash in between sends them again. The locks are held during the call so that replicas
        share the work; nobody else waits for these rows.
        """

        async def exported(tx: Transaction) -> bool:
            pending = await spans_store.lock_pending_spans(
                tx, limit=self._page, bytes_max=EXPORT_BYTES_MAX
            )
            if pending:
                await self._send(pending)
                await spans_store.mark_exported(tx, span_seqs=[span.span_seq for span in pending])
            return bool(pending)

        return await self._database.run(exported)
