"""The database as operations see it: give it a function, it is one transaction.

Each transaction runs in a task of its own. A caller who goes away cancels it while it can still be
rolled back; once COMMIT is on its way it is left to end, whoever waits. A connection whose state
is not certain never returns to the pool.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import psycopg
from fencepost.errors import DatabaseUnavailable, Overloaded
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, TooManyRequests

from shared.database.connections import Connection, LastFault, Session
from shared.database.faults import CONFLICTS, no_connection, refuse, still_in_conflict
from shared.database.health import Health
from shared.database.overdue import Overdue
from shared.database.statements import statement
from shared.database.transactions import Transaction
from shared.metrics import (
    DATABASE_CONFLICTS,
    DATABASE_POOL_CONNECTIONS,
    DATABASE_POOL_WAITING,
)
from shared.settings import RuntimeSettings

T = TypeVar("T")
Work = Callable[[Transaction], Awaitable[T]]

CONFLICT_ATTEMPTS_MAX = 6
CONFLICT_PAUSE_MS = 5
CONFLICT_PAUSE_MAX_MS = 160
RECONNECT_TIMEOUT_S = 1.0
"""After this the pool gives a place up; the next caller makes it try at once, not in minutes."""

PING_TIMEOUT_MS = 800

ACCEPTS_WRITES = statement("""
    SELECT NOT pg_catalog.pg_is_in_recovery()
        AND pg_catalog.current_setting('default_transaction_read_only') = 'off' AS accepts_writes
""")


@dataclass
class _Flight:
    """How far one transaction is: its caller may stop it, or must leave it to end by itself."""

    stoppable: bool = True


class Database:
    """A pool of connections as one role; opening it does not need the database to be there."""

    def __init__(self, session: Session, *, pool_min: int, pool_max: int, waiting_max: int) -> None:
        self._session = session
        self._last_fault = LastFault()
        self._flights: set[asyncio.Task[object]] = set()
        self._health = Health(session.place)
        self._pool = AsyncConnectionPool(
            session.conninfo,
            connection_class=Connection,
            kwargs={
                "session": session,
                "overdue": Overdue(session.answer_timeout_ms),
                "last_fault": self._last_fault,
            },
            min_size=pool_min,
            max_size=pool_max,
            max_waiting=waiting_max,
            timeout=session.connect_timeout_ms / 1000,
            reconnect_timeout=RECONNECT_TIMEOUT_S,
            name=session.application_name,
            open=False,
        )

    @classmethod
    def create(cls, settings: RuntimeSettings, *, application_name: str) -> Self:
        """A database that is not opened yet. Raises psycopg.ProgrammingError on a malformed URL."""
        return cls(
            Session.of(settings, application_name=application_name),
            pool_min=settings.database_pool_min,
            pool_max=settings.database_pool_max,
            waiting_max=settings.concurrent_rpcs_max,
        )

    async def open(self) -> None:
        """Begins to connect and returns at once."""
        await self._pool.open()
        stats = self._pool.get_stats
        DATABASE_POOL_CONNECTIONS.labels("open").set_function(lambda: stats()["pool_size"])
        DATABASE_POOL_CONNECTIONS.labels("idle").set_function(lambda: stats()["pool_available"])
        DATABASE_POOL_WAITING.set_function(lambda: stats()["requests_waiting"])

    async def close(self) -> None:
        """Lets transactions under way end, as long as one answer may take, and disconnects."""
        if self._flights:
            await asyncio.wait(self._flights, timeout=self._session.answer_timeout_ms / 1000)
        await self._pool.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def run(self, work: Work[T]) -> T:
        """Runs the work in one READ COMMITTED transaction and commits it; keeps X6 and X7.

        The work may run several times, each time from the start in a new transaction, so it must
        keep nothing from one run for the next. What it raises rolls the transaction back and is
        raised. Raises DatabaseUnavailable, Overloaded; a psycopg.Error is a fault of ours.
        """
        return await self._apart(work, read_only=False)

    async def read(self, work: Work[T]) -> T:
        """The same in a transaction that the server holds to reading."""
        return await self._apart(work, read_only=True)

    async def ping(self) -> None:
        """Raises DatabaseUnavailable, with a message for operators, unless writes are possible."""
        try:
            async with asyncio.timeout(PING_TIMEOUT_MS / 1000):
                accepts_writes = await self.read(lambda tx: tx.one(ACCEPTS_WRITES, bool))
        except (DatabaseUnavailable, TimeoutError) as unavailable:
            why = self._last_fault.sentence or "it does not answer"
            message = f"The database {self._session.place} is away: {why}."
            raise DatabaseUnavailable(message=message) from unavailable
        if not accepts_writes:
            raise DatabaseUnavailable(
                message=f"The database {self._session.place} takes no writes, it is a standby or "
                "was set read-only: name the primary."
            )

    async def _apart(self, work: Work[T], *, read_only: bool) -> T:
        flight = _Flight()
        task = asyncio.create_task(self._attempts(work, flight, read_only=read_only))
        self._flights.add(task)
        task.add_done_callback(self._flights.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if flight.stoppable:
                task.cancel()
            raise

    async def _attempts(self, work: Work[T], flight: _Flight, *, read_only: bool) -> T:
        for failed in range(1, CONFLICT_ATTEMPTS_MAX):
            try:
                return await self._once(work, flight, read_only=read_only)
            except CONFLICTS:
                DATABASE_CONFLICTS.inc()
            pause_ms = min(CONFLICT_PAUSE_MS * 2**failed, CONFLICT_PAUSE_MAX_MS)
            await asyncio.sleep(pause_ms * random.uniform(0.5, 1.5) / 1000)
        try:
            return await self._once(work, flight, read_only=read_only)
        except CONFLICTS as conflict:
            raise still_in_conflict() from conflict

    async def _once(self, work: Work[T], flight: _Flight, *, read_only: bool) -> T:
        """One whole run; connections that died in the pool are passed over."""
        give_up_at_s = time.monotonic() + self._session.connect_timeout_ms / 1000
        while True:
            flight.stoppable = True
            connection = await self._connection(within_s=give_up_at_s - time.monotonic())
            transaction = Transaction(connection, read_only=read_only)
            committing = False
            try:
                result = await work(transaction)
                committing = not read_only
                flight.stoppable = False
                await transaction.commit()
            except psycopg.Error as error:
                lost = connection.closed
                if lost and not transaction.is_begun and time.monotonic() < give_up_at_s:
                    continue
                if not (read_only and isinstance(error, errors.ReadOnlySqlTransaction)):
                    refuse(error, lost=lost, committing=committing and transaction.is_begun)
                raise
            else:
                self._health.note_back()
                return result
            finally:
                flight.stoppable = False
                transaction.leave()
                await self._give_back(connection)

    async def _connection(self, *, within_s: float) -> Connection:
        try:
            return await self._pool.getconn(within_s)
        except TooManyRequests as full:
            # The queue is full, which says nothing of the database.
            raise Overloaded from full
        except psycopg.OperationalError as error:
            waited_ms = self._session.connect_timeout_ms
            no_answer = f"no connection was free within {waited_ms} ms"
            self._health.note_away(self._last_fault.sentence or no_answer)
            raise no_connection() from error

    async def _give_back(self, connection: Connection) -> None:
        try:
            await connection.roll_back_all()
            if connection.is_spent:
                await connection.close()
        finally:
            await self._pool.putconn(connection)
