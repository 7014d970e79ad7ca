"""What an operation holds while its transaction is open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from psycopg import errors

from shared.database.connections import Connection
from shared.database.faults import RowLocked
from shared.database.rows import Column, Row, TooManyRowsError, row_maker
from shared.database.statements import Statement

T = TypeVar("T")


class Transaction:
    """One open transaction; its methods run one statement each, in the order they are called.

    A statement that fails raises psycopg's error, and the transaction can only be left, unless it
    failed in a `part`.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

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
        return await self._open_connection().perform(st.numbered, st.values(params))

    @asynccontextmanager
    async def part(self, *, lock_timeout_ms: int) -> AsyncIterator[None]:
        """What is done inside is undone alone when a row stays locked; then raises RowLocked.

        The lock timeout holds from here to the end of the transaction, unless it is undone.
        """
        connection = self._open_connection()
        await connection.begin_part(lock_timeout_ms=lock_timeout_ms)
        try:
            yield
        except errors.LockNotAvailable as locked:
            await connection.undo_part()
            raise RowLocked from locked
        await connection.end_part()

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
        return await self._open_connection().fetch(st.numbered, st.values(params))

    def _open_connection(self) -> Connection:
        assert self._connection is not None, "the transaction has ended"
        return self._connection
