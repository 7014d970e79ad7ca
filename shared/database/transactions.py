"""What an operation holds while its transaction is open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from psycopg import errors
from psycopg.pq.abc import PGresult

from shared.database.connections import Connection
from shared.database.faults import RowLocked, StatementFaultHiddenError
from shared.database.rows import Column, Row, TooManyRowsError, row_maker
from shared.database.statements import Statement
from shared.database.wire import Query

T = TypeVar("T")

COMMIT = Query(b"COMMIT", controls=True)
COMMITTED = b"COMMIT"
"""What the server says when it did not have to roll back instead."""


class Transaction:
    """One open transaction; its methods run one statement each, in the order they are called.

    A statement that fails raises psycopg's error, and the transaction can only be left, unless it
    failed in a `part`.
    """

    __slots__ = ("_connection", "_later", "is_begun")

    def __init__(self, connection: Connection, *, read_only: bool) -> None:
        session = connection.session
        self._connection: Connection | None = connection
        self.is_begun = False
        """Whether the server has answered; before, nothing can have been done."""
        # BEGIN goes with the first statement.
        self._later = [*(session.begin_read_only if read_only else session.begin)]

    async def one(self, st: Statement, into: type[T], /, **params: object) -> T | None:
        """The only row, or None; for a plain type also None if the value is NULL.

        Raises TooManyRowsError, RowShapeError.
        """
        columns, rows = await self._rows(st, params)
        if not rows:
            return None
        if len(rows) > 1:
            raise TooManyRowsError(f"{len(rows)} rows, at most one was expected: {st.text}")
        make = row_maker(into, columns)
        if rows[0] == (None,):
            return None
        return make(rows[0])

    async def all(self, st: Statement, into: type[T], /, **params: object) -> list[T]:
        """Every row, in the statement's order. Raises RowShapeError."""
        columns, rows = await self._rows(st, params)
        make = row_maker(into, columns)
        return [make(row) for row in rows]

    async def execute(self, st: Statement, /, **params: object) -> int:
        """How many rows the statement changed, or found."""
        result = await self._run(Query(st.numbered, st.values(params)))
        return result.command_tuples or 0

    def later(self, st: Statement, /, **params: object) -> None:
        """Runs the statement before the next one, or before the commit, in its round trip.

        What it raises is raised there.
        """
        self._later.append(Query(st.numbered, st.values(params)))

    async def commit(self) -> None:
        """Commits. Raises StatementFaultHiddenError if the server had to roll back instead."""
        if not self.is_begun:
            await self._run()
        result = await self._run(COMMIT)
        if result.command_status != COMMITTED:
            raise StatementFaultHiddenError

    @asynccontextmanager
    async def part(self, *, lock_timeout_ms: int) -> AsyncIterator[None]:
        """What is done inside is undone alone when a row stays locked; then raises RowLocked.

        The lock timeout holds from here to the end of the transaction, unless it is undone.
        """
        self._control("SAVEPOINT part", f"SET LOCAL lock_timeout = {lock_timeout_ms}")
        try:
            yield
        except errors.LockNotAvailable as locked:
            self._control("ROLLBACK TO part")
            raise RowLocked from locked
        finally:
            self._control("RELEASE part")

    def spend_connection(self) -> None:
        """Lets the connection end with the transaction: after a large statement it would keep as
        much memory as that took, each connection of the pool by itself.
        """
        self._open_connection().is_spent = True

    def leave(self) -> None:
        """Ends the use of the connection: what is called later is a fault, not another's rows."""
        self._connection = None

    async def _rows(
        self, st: Statement, params: dict[str, object]
    ) -> tuple[tuple[Column, ...], list[Row]]:
        result = await self._run(Query(st.numbered, st.values(params)))
        return self._open_connection().wire.rows(result)

    def _control(self, *statements: str) -> None:
        self._later += [Query(each.encode(), controls=True) for each in statements]

    async def _run(self, *queries: Query) -> PGresult:
        """The result of the last."""
        together = [*self._later, *queries]
        self._later.clear()
        results = await self._open_connection().exchange(together)
        self.is_begun = True
        return results[-1]

    def _open_connection(self) -> Connection:
        assert self._connection is not None, "the transaction has ended"
        return self._connection
