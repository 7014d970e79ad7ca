"""A dispatcher's rooms on a real database, and what workers would ask of them."""

import hashlib
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from pydantic import SecretStr

from services.dispatcher.checkpoints.operations import CheckpointOperations, Flush, FlushAnswer
from services.dispatcher.checkpoints.spans_store import WorkerSpan
from services.dispatcher.checkpoints.store import Checkpoint
from services.dispatcher.dispatch.fences_store import Fence
from services.dispatcher.dispatch.grant_operations import Ask, Grant
from services.dispatcher.dispatch.operations import DispatchOperations
from services.dispatcher.dispatch.sessions_store import NewSession, Stream
from services.dispatcher.dispatch.settle_operations import (
    Completed,
    Failed,
    Outcome,
    Released,
    SettleAnswer,
    Settlement,
)
from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.housekeeping.expire_operations import Expirer
from services.dispatcher.housekeeping.move_operations import Mover
from services.dispatcher.intents.operations import IntentOperations
from services.dispatcher.queues.model import Declared
from services.dispatcher.queues.operations import (
    Admin,
    PutOutcome,
    PutQueue,
    QueueOperations,
)
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database
from shared.schema.states import Disposition
from tests.rows import Row, Rows, Work

LEASE_MS = 1_800_000
WRITTEN = ("intents", "ready", "waiting", "leases", "dispatches", "runs", "flushes", "run_spans")


def dispatcher_settings(database_url: str, **changes: Any) -> DispatcherSettings:
    """Settings of a dispatcher that is not served, and waits as long for a lock as a test may."""
    return DispatcherSettings(
        **{
            "database_url": SecretStr(database_url),
            "database_lock_timeout_ms": 10_000,
            "database_statement_timeout_ms": 15_000,
            **changes,
        }
    )


def new_session(tenant: str = "acme", **changes: Any) -> NewSession:
    """A worker that says Hello, on a stream of its own."""
    said = {
        "session_id": str(uuid.uuid4()),
        "tenant": tenant,
        "key_id": "worker-key",
        "queues": ["reviews"],
        "version": "1.0",
        "labels": {"service.name": "demo-bot"},
        "place": f"replica/{uuid.uuid4()}",
    }
    return NewSession(**{**said, **changes})


WRONG_FENCES: tuple[dict[str, Any], ...] = (
    {"holder": "holder-2"},
    {"epoch": 2},
    {"key": "github.com/1#7@0000000000000000000000000000000000000000"},
    {"action": "another-bot"},
    {"intent_id": 4711},
)
"""Each makes another's fence of the first grant's."""


def fence_of(work: Work | Grant, **changes: Any) -> Fence:
    """The fence that whoever holds this sends."""
    if isinstance(work, Grant):
        held = {"key": work.key, "action": work.action, "epoch": work.epoch}
        return Fence(**{**held, "intent_id": work.intent.intent_id, **changes})
    named = ("key", "action", "epoch", "holder", "intent_id")
    return Fence(**{**{name: getattr(work, name) for name in named}, **changes})


def completed(*, version: int = 0, result: bytes = b"") -> Completed:
    return Completed(checkpoint_version=version, result=result)


def failed(
    disposition: Disposition = Disposition.TRANSIENT,
    *,
    reason: str = "it broke",
    retry_after_ms: int | None = None,
) -> Failed:
    return Failed(disposition=disposition, reason=reason, retry_after_ms=retry_after_ms)


def released(*, delay_ms: int = 1000) -> Released:
    return Released(delay_ms=delay_ms, reason="given back")


OUTCOMES: tuple[Outcome, ...] = (
    completed(result=b"fine"),
    failed(),
    failed(Disposition.PERMANENT),
    failed(Disposition.BLOCKED),
    released(),
)
"""One of each kind."""


def span(work: Work, number: int = 1) -> WorkerSpan:
    """A finished span of this work."""
    return WorkerSpan(
        intent_id=work.intent_id,
        trace_id=bytes([1]) * 16,
        span_id=bytes([number]) * 8,
        otlp_span=b"span",
    )


def settlement(fence: Fence, outcome: Outcome, **changes: Any) -> Settlement:
    """One outcome; its digest follows from what it says."""
    digest = hashlib.sha256(repr(outcome).encode()).digest()
    return Settlement(fence=fence, outcome=outcome, outcome_sha256=digest, **changes)


def checkpoint(**changes: Any) -> Checkpoint:
    """A first flush; its digest follows from what it says."""
    said = {
        "flush_id": str(uuid.uuid4()),
        "based_on_version": 0,
        "state": b'{"step": 1}',
        "state_schema_version": 1,
        "state_codec": "",
        "event_cursor": 7,
        "phase": "analyse",
        "analysis_status": "running",
        "final": False,
        "span_count": 0,
        **changes,
    }
    digest = hashlib.sha256(repr(sorted(said.items())).encode()).digest()
    return Checkpoint(request_sha256=digest, **said)


def declared(**changes: Any) -> Declared:
    """A queue whose rules are none of the settings', but for these."""
    rules = {
        "name": "reviews",
        "retries_max": 1,
        "retry_delays_ms": (5_000,),
        "retry_cap_ms": None,
        "retry_jitter_percent": 0,
        "lease_ms": 120_000,
    }
    return Declared(**{**rules, **changes})


@asynccontextmanager
async def opened(owner_url: str, service_url: str, **changes: Any) -> AsyncIterator["Desk"]:
    """A desk on this database; rows are made as its owner."""
    settings = dispatcher_settings(service_url, **changes)
    async with (
        await AsyncConnection.connect(owner_url, autocommit=True) as connection,
        Database.create(settings, application_name="dispatcher") as database,
    ):
        yield Desk(Rows(connection), database, settings)


@dataclass(frozen=True)
class Desk:
    """The operations of one dispatcher, as its own role."""

    rows: Rows
    database: Database
    settings: DispatcherSettings
    wakeups: Wakeups = field(default_factory=Wakeups)

    @property
    def dispatching(self) -> DispatchOperations:
        """Grants, renewals, outcomes, sessions."""
        return DispatchOperations(self.database, self.wakeups, self.settings)

    @property
    def intents(self) -> IntentOperations:
        """Adds and reads intents."""
        return IntentOperations(self.database)

    @property
    def checkpoints(self) -> CheckpointOperations:
        """Flushes and loads."""
        return CheckpointOperations(self.database)

    @property
    def queues(self) -> QueueOperations:
        """Declares queues."""
        return QueueOperations(self.database)

    async def put_queue(
        self, *, tenant: str = "", validate_only: bool = False, **changes: Any
    ) -> PutOutcome:
        """Declares a queue."""
        return await self.queues.put(
            PutQueue(
                admin=Admin(key_id="adminkey", tenant=tenant or self.rows.tenant),
                declared=declared(**changes),
                validate_only=validate_only,
            )
        )

    async def pause(self, *, tenant: str = "") -> None:
        """Pauses the queue."""
        admin = Admin(key_id="adminkey", tenant=tenant or self.rows.tenant)
        await self.queues.pause(admin, "reviews", "a deploy")

    async def resume(self) -> None:
        """Resumes the queue."""
        admin = Admin(key_id="adminkey", tenant=self.rows.tenant)
        await self.queues.resume(admin, "reviews", "deployed")

    async def move(self) -> bool:
        """One tick of the mover."""
        return await Mover(self.database, self.wakeups, self.settings).tick()

    async def expire(self) -> bool:
        """One tick of the expiry."""
        return await Expirer(self.database, self.wakeups, self.settings).tick()

    async def stream(self, **changes: Any) -> Stream:
        """A session that has been opened."""
        session = new_session(**{"tenant": self.rows.tenant, **changes})
        await self.dispatching.open_session(session, resume=False)
        return Stream(tenant=session.tenant, session_id=session.session_id, place=session.place)

    async def grant(
        self,
        stream: Stream | None = None,
        *,
        queues: Sequence[str] = ("reviews",),
        limit: int = 10,
        grant_id: str = "",
    ) -> list[Grant]:
        """What a session, a new one unless given, is granted."""
        ask = Ask(stream=stream or await self.stream(), queues=queues, limit=limit)
        return await self.dispatching.grant(ask, grant_id=grant_id or str(uuid.uuid4()))

    async def ready(self, **values: Any) -> Work:
        """A new intent that may be granted now."""
        work = await self.rows.intent(**values)
        await self.rows.ready(work)
        return work

    async def running(self, **lease: Any) -> Work:
        """A new intent under a running lease."""
        return await self.rows.lease(await self.rows.intent(), **lease)

    async def settle(self, work: Work, outcome: Outcome, **changes: Any) -> SettleAnswer:
        """One outcome of what this work holds."""
        item = settlement(fence_of(work), outcome, **changes)
        [answer] = await self.dispatching.settle(work.tenant, [item])
        return answer

    async def flush(self, work: Work, spans: Sequence[Any] = (), **changes: Any) -> FlushAnswer:
        """One flush under what this work holds."""
        return await self.checkpoints.flush(
            Flush(
                tenant=work.tenant,
                fence=fence_of(work),
                checkpoint=checkpoint(span_count=len(spans), **changes),
                spans=spans,
            )
        )

    async def lease(self, work: Work) -> Row:
        """The lease row of this key and action."""
        return await self.rows.one("leases", tenant=work.tenant, key=work.key, action=work.action)

    async def intent(self, work: Work) -> Row:
        """The intent's row."""
        return await self.rows.one("intents", intent_id=work.intent_id)

    async def now(self) -> datetime:
        """The database's clock."""
        cursor = await self.rows.connection.execute("SELECT clock_timestamp()")
        row = await cursor.fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment

    async def everything(self) -> list[list[Row]]:
        """What a refused call must leave as it is."""
        return [await self.rows.all(table) for table in WRITTEN]

    async def place(self, work: Work) -> str:
        """Where an intent stands: its status, and the tables that hold it."""
        tables = [
            table
            for table in ("ready", "waiting", "leases")
            if await self.rows.all(table, intent_id=work.intent_id)
        ]
        return " ".join([(await self.intent(work))["status"], *tables])

    async def rival(self, work: Work, **values: Any) -> Work:
        """Another intent for the same key and action, ready to be granted."""
        values = {"suffix": work.suffix, "action": work.action, **values}
        other = await self.rows.intent(work.change_request, **values)
        await self.rows.ready(other)
        return other
