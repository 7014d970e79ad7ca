"""Workers in the test's own loop, a dispatcher in a process of its own, and work for them."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from fencepost import Worker
from fencepost.attempt import Handler
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from psycopg.conninfo import conninfo_to_dict

from tests.database_proxy import DatabaseProxy
from tests.rows import ChangeRequest, Row, Rows, Work
from tests.waiting import until

SCOPES = ("work", "publish", "intents_write")
ENDED_WITHIN_S = 15.0

_tenants = itertools.count(1)


@dataclass(frozen=True)
class Bench:
    """One test's tenant on the dispatcher that many tests share."""

    rows: Rows
    dispatcher: str
    api_key: str
    trace_id: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def traceparent(self) -> str:
        """The trace that the bench's work belongs to."""
        return f"00-{self.trace_id}-b7ad6b7169203331-01"

    @classmethod
    async def made(cls, rows: Rows, dispatcher: str) -> "Bench":
        """A tenant of its own, with a key."""
        rows = Rows(rows.connection, tenant=f"tenant-{next(_tenants)}")
        return cls(rows, dispatcher, await rows.api_key(*SCOPES, tenant=rows.tenant))

    def worker(self, handler: Handler, **options: Any) -> Worker:
        """A worker with this handler."""
        reached = {"dispatcher": self.dispatcher, "api_key": self.api_key, "queues": ["reviews"]}
        worker = Worker(**{**reached, **options})
        worker.handle(handler)
        return worker

    @asynccontextmanager
    async def working(
        self, handler: Handler, **options: Any
    ) -> AsyncIterator["asyncio.Task[None]"]:
        """Runs a worker while the block runs; it must end well."""
        worker = self.worker(handler, **options)
        running = asyncio.create_task(worker.run())
        try:
            yield running
        except BaseException:
            running.cancel()
            await asyncio.wait({running})
            raise
        worker.stop()
        async with asyncio.timeout(ENDED_WITHIN_S):
            await running

    async def work(self, change_request: ChangeRequest | None = None, **values: Any) -> Work:
        """Work that a worker may be granted now."""
        pull = change_request or await self.rows.change_request()
        work = await self.rows.intent(pull, **{"traceparent": self.traceparent, **values})
        await self.rows.ready(work)
        return work

    async def intent(self, work: Work) -> Row:
        """The intent's row."""
        return await self.rows.one("intents", intent_id=work.intent_id)

    async def settled(self, work: Work, status: str = "succeeded") -> Row:
        """The intent's row once it has this status."""

        async def row() -> Row | None:
            found = await self.intent(work)
            return found if found["status"] == status else None

        return await until(row, what=f"intent {work.intent_id} to be {status}")

    async def outcomes(self, work: Work, count: int = 1) -> list[Row]:
        """The dispatches of the work that have ended, once there are so many."""

        async def ended() -> list[Row] | None:
            rows = await self.rows.all("dispatches", intent_id=work.intent_id)
            return sorted(rows, key=itemgetter("epoch")) if len(rows) >= count else None

        return await until(ended, what=f"{count} outcomes of intent {work.intent_id}")

    async def flushes(self, work: Work) -> list[Row]:
        """The flushes of the work's run, in order."""
        runs = await self.rows.all("runs", tenant=work.tenant, key=work.key, action=work.action)
        rows = await self.rows.all("flushes", run_id=runs[0]["run_id"]) if runs else []
        return sorted(rows, key=itemgetter("version"))

    async def spans(self, work: Work) -> list[Span]:
        """The spans that were stored for the work, in order."""
        rows = await self.rows.all("run_spans", intent_id=work.intent_id)
        rows.sort(key=itemgetter("span_seq"))
        return [Span.FromString(row["otlp_span"]) for row in rows]


def told(span: Span) -> dict[str, Any]:
    """The attributes of a span."""
    return {
        each.key: getattr(each.value, str(each.value.WhichOneof("value")))
        for each in span.attributes
    }


@asynccontextmanager
async def network_to(address: str) -> AsyncIterator[tuple[DatabaseProxy, str]]:
    """A network that the test controls in front of host:port, and its own host:port."""
    async with DatabaseProxy.before(f"postgresql://any:any@{address}/any") as network:
        yield network, f"127.0.0.1:{conninfo_to_dict(network.url())['port']}"
