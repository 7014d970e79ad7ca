"""A dispatcher as a process of its own that many tests call, each with a tenant of its own."""

import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from tests.rows import Row, Rows, Work
from tests.services.dispatcher.wire import Line, line

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Serving:
    """A dispatcher that runs, and its database."""

    address: str
    owner_url: str


@dataclass(frozen=True)
class Floor:
    """One tenant's work, and lines to the dispatcher with its keys."""

    rows: Rows
    address: str
    owner_url: str

    def another(self) -> AbstractAsyncContextManager["Floor"]:
        """Another tenant on the same dispatcher."""
        return floor_on(self.owner_url, self.address)

    async def line(
        self, *scopes: str, address: str = "", of_tenant: bool = True, named: str | None = None
    ) -> AbstractAsyncContextManager[Line]:
        """A line with a new key; one that may work and enqueue unless scopes are named."""
        key = await self.rows.api_key(
            *(scopes or ("work", "intents_write", "intents_read")),
            tenant=self.rows.tenant if of_tenant else None,
        )
        return line(address or self.address, key, tenant=named)

    async def ready(self, **values: Any) -> Work:
        """An intent that may be granted now; nobody is told of it."""
        work = await self.rows.intent(**{"traceparent": TRACEPARENT, **values})
        await self.rows.ready(work)
        return work

    async def running(self) -> Work:
        """An intent that somebody holds."""
        return await self.rows.lease(await self.rows.intent())

    async def intent(self, work: Work) -> Row:
        """The intent's row."""
        return await self.rows.one("intents", intent_id=work.intent_id)

    async def lease(self, work: Work) -> Row:
        """The lease of the work."""
        return await self.rows.one("leases", key=work.key, action=work.action)

    async def session(self, session_id: str) -> Row:
        """The session's row."""
        return await self.rows.one("sessions", session_id=session_id)


@asynccontextmanager
async def floor_on(owner_url: str, address: str) -> AsyncIterator[Floor]:
    """A tenant that nobody else has, on this dispatcher."""
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Floor(Rows(connection, tenant=f"tenant-{next(_numbers)}"), address, owner_url)
