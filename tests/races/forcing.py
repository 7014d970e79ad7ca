"""Forces a race instead of hoping for one.

A blocker, a connection of the test's own, holds the lock or the unflushed row that all contenders
need. They are started, *seen* waiting for it in the server's own lock table, and only then is the
blocker's transaction ended:

    async with blocking(owner_url) as blocker:
        await blocker.hold("SELECT 1 FROM fencepost.leases WHERE key = %(key)s FOR UPDATE", key=key)
        outcomes = await forced(blocker, [claim(), claim()], on="leases", release=blocker.roll_back)

A contender that gets past without waiting fails the test at once: that is what happens when the
guard is taken out. Waiting is read from pg_locks and pg_blocking_pids, which show every session,
whatever its role.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import class_row

from tests.waiting import until

T = TypeVar("T")

SEEN_WITHIN_S = 30.0

# A session counts when the blocker, or one that waits for the blocker, stands in its way: of two
# that wait for one row, the second waits for the first one's place in the queue.
_WAITERS = """
WITH RECURSIVE stuck (pid) AS (
    SELECT DISTINCT l.pid FROM pg_locks l
    WHERE NOT l.granted AND %(blocker)s = ANY (pg_blocking_pids(l.pid))
  UNION
    SELECT l.pid FROM stuck s, pg_locks l
    WHERE NOT l.granted AND s.pid = ANY (pg_blocking_pids(l.pid))
)
SELECT s.pid,
       (SELECT min(w.locktype) FROM pg_locks w WHERE w.pid = s.pid AND NOT w.granted) AS waits_for,
       ARRAY(SELECT DISTINCT c.relname::text FROM pg_locks h JOIN pg_class c ON c.oid = h.relation
             WHERE h.pid = s.pid AND c.relkind IN ('r', 'p') ORDER BY 1) AS touched,
       (SELECT a.query FROM pg_stat_activity a WHERE a.pid = s.pid) AS query
FROM stuck s ORDER BY s.pid
"""


@dataclass(frozen=True)
class Waiter:
    """A session that is stuck behind the blocker.

    `waits_for` is the kind of lock, `touched` the tables its transaction works on; `query` is
    hidden by the server where the blocker's role may not see it.
    """

    pid: int
    waits_for: str
    touched: list[str]
    query: str | None


@dataclass(frozen=True)
class Blocker:
    """A transaction that stands in the way until it commits or rolls back."""

    connection: AsyncConnection[Any]
    observer: AsyncConnection[Any]

    async def hold(self, statement: LiteralString, **values: Any) -> None:
        """Runs a statement in the open transaction; what it locks stays locked."""
        await self.connection.execute(statement, values)

    async def waiters(self, *, on: str | None = None) -> list[Waiter]:
        """Sessions that wait now, directly or in a queue; only those that touch the table `on`."""
        async with self.observer.cursor(row_factory=class_row(Waiter)) as cursor:
            await cursor.execute(_WAITERS, {"blocker": self.connection.info.backend_pid})
            stuck = await cursor.fetchall()
        return [waiter for waiter in stuck if on is None or on in waiter.touched]

    async def seen_waiting(
        self, n: int, *, on: str | None = None, deadline_s: float = SEEN_WITHIN_S
    ) -> list[Waiter]:
        """Returns once at least `n` sessions wait; raises TimeoutError after `deadline_s`."""

        async def enough() -> list[Waiter] | None:
            stuck = await self.waiters(on=on)
            return stuck if len(stuck) >= n else None

        return await until(enough, deadline_s=deadline_s, what=_awaited(n, on))

    async def commit(self) -> None:
        """Ends the transaction; what it wrote stands."""
        await self.connection.commit()

    async def roll_back(self) -> None:
        """Ends the transaction; what it wrote is gone."""
        await self.connection.rollback()


@asynccontextmanager
async def blocking(url: str) -> AsyncIterator[Blocker]:
    """A blocker and its observer on this database; both are closed at the end."""
    async with (
        await AsyncConnection.connect(url, autocommit=False) as connection,
        await AsyncConnection.connect(url, autocommit=True) as observer,
    ):
        yield Blocker(connection, observer)
        await connection.rollback()


async def forced(
    blocker: Blocker,
    contenders: Sequence[Coroutine[Any, Any, T]],
    *,
    release: Callable[[], Awaitable[None]],
    on: str | None = None,
    deadline_s: float = SEEN_WITHIN_S,
) -> list[T | BaseException]:
    """Starts the contenders, sees every one waiting, releases; outcomes in their order.

    A contender's exception is its outcome. Raises AssertionError when one ends before it waited.
    """
    tasks = [asyncio.ensure_future(contender) for contender in contenders]
    try:
        await until(
            lambda: _all_wait(blocker, tasks, on),
            deadline_s=deadline_s,
            what=_awaited(len(tasks), on),
        )
        await release()
        return await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _all_wait(blocker: Blocker, tasks: "list[asyncio.Task[T]]", on: str | None) -> bool:
    for number, task in enumerate(tasks, start=1):
        if task.done():
            ending = task.exception() or task.result()
            raise AssertionError(f"contender {number} did not wait: it ended with {ending!r}")
    return len(await blocker.waiters(on=on)) >= len(tasks)


def _awaited(n: int, on: str | None) -> str:
    return f"{n} sessions waiting behind the blocker" + (f" on {on}" if on else "")
