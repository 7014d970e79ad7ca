"""Duty: the worker's stored spans are sent to the collector, at least once, with the same ids."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
from fencepost.errors import FencepostError

from services.dispatcher.checkpoints import spans_store
from services.dispatcher.checkpoints.spans_store import PendingSpan
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database, Transaction
from shared.metrics import TRACE_SPANS_LOST
from shared.settings import MIB

Send = Callable[[Sequence[PendingSpan]], Awaitable[None]]

EXPORT_BYTES_MAX = MIB
"""Well below what collectors take in one message, 4 MiB by default."""

REFUSED: Final = "refused by the collector"

log = structlog.get_logger(__name__)


class SpansRefusedError(FencepostError):
    """The collector will never take all of these spans, whoever sends them and when."""


class SpanExporter:
    """Sends what no collector has confirmed; `send` raises unless it was confirmed (C7).

    A page that is refused for good is sent again by halves, until the refused span is alone: that
    one is told, counted and never sent again, so that it holds up none behind it.
    """

    def __init__(self, database: Database, send: Send, settings: DispatcherSettings) -> None:
        self._database = database
        self._send = send
        self._page = self._page_max = settings.duty_batch_max

    async def tick(self) -> bool:
        """The oldest spans: locked, sent once, marked; True when there may be more.

        A crash in between sends them again. The locks are held during the call so that replicas
        share the work; nobody else waits for these rows.
        """

        async def exported(tx: Transaction) -> bool:
            pending = await spans_store.lock_pending_spans(
                tx, limit=self._page, bytes_max=EXPORT_BYTES_MAX
            )
            if pending and await self._are_done(pending):
                await spans_store.mark_exported(tx, span_seqs=[span.span_seq for span in pending])
            return bool(pending)

        return await self._database.run(exported)

    async def _are_done(self, pending: Sequence[PendingSpan]) -> bool:
        """Whether these spans wait no more: they were taken, or the only one never will be."""
        try:
            await self._send(pending)
        except SpansRefusedError as refused:
            self._page = max(1, len(pending) // 2)
            if len(pending) > 1:
                return False
            tell_refused(1, why=refused.message, span_seq=pending[0].span_seq)
        else:
            self._page = min(2 * self._page, self._page_max)
        return True


def tell_refused(count: int, *, why: str, span_seq: int | None = None) -> None:
    """Counts and logs spans that are lost because the collector refuses them."""
    TRACE_SPANS_LOST.labels(REFUSED).inc(count)
    log.warning(
        "the collector refuses spans of a worker for good: they are not sent again",
        spans=count,
        span_seq=span_seq,
        why=why,
    )
