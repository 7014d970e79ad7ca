"""Statements on the wire: a list of them is one round trip.

Each is sent without waiting for the answer to the one before (libpq's pipeline); after one that
fails the server passes over the rest. A round trip costs both sides more than a statement does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from psycopg import AsyncConnection, OperationalError
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from shared.database.rows import Column, Row

Prepared = tuple[bytes, tuple[int, ...]]
"""A statement and the types of its parameters."""


@dataclass(frozen=True)
class Query:
    """A statement with its parameters; one that controls the transaction is never prepared."""

    sql: bytes
    values: Sequence[object] = ()
    controls: bool = False


@dataclass(frozen=True)
class _Message:
    """What is answered by itself: a query, or the wish to know a statement by a name."""

    send: Callable[[], None]
    names: tuple[Prepared, bytes] | None = None


class Wire:
    """How a connection sends statements and reads what comes back."""

    def __init__(self, connection: AsyncConnection[TupleRow], *, prepare: bool) -> None:
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._prepare = prepare
        # As many as there are statements in the code.
        self._names: dict[Prepared, bytes] = {}
        self._numbers = count(1)

    def exchange(self, queries: Sequence[Query]) -> PQGen[list[PGresult]]:
        """The result of each query. Raises the psycopg.Error of the first that failed."""
        fresh: dict[Prepared, bytes] = {}
        messages = [message for query in queries for message in self._messages(query, fresh)]
        awaited = [message.names for message in messages]
        self._pgconn.enter_pipeline_mode()
        while messages:
            # What was sent is libpq's: a large body is not kept here as well.
            messages.pop(0).send()
        self._pgconn.pipeline_sync()
        yield from send(self._pgconn)
        return (yield from self._answers(awaited))

    def rows(self, result: PGresult) -> tuple[tuple[Column, ...], list[Row]]:
        """The columns of a result, and its rows."""
        columns = tuple(
            ((result.fname(index) or b"").decode(), result.ftype(index))
            for index in range(result.nfields)
        )
        self._transformer.set_pgresult(result)
        rows = self._transformer.load_rows(0, result.ntuples, tuple)
        self._transformer.set_pgresult(None)
        return columns, rows

    def _messages(self, query: Query, fresh: dict[Prepared, bytes]) -> Iterator[_Message]:
        formats_wanted = [PyFormat.AUTO] * len(query.values)
        values = self._transformer.dump_sequence(query.values, formats_wanted)
        types, formats = self._transformer.types or (), self._transformer.formats
        pgconn, binary = self._pgconn, Format.BINARY
        if query.controls or not self._prepare:
            yield _Message(
                partial(pgconn.send_query_params, query.sql, values, types, formats, binary)
            )
            return
        prepared = (query.sql, types)
        name = self._names.get(prepared) or fresh.get(prepared)
        if name is None:
            name = fresh[prepared] = b"s%d" % next(self._numbers)
            yield _Message(partial(pgconn.send_prepare, name, *prepared), (prepared, name))
        yield _Message(partial(pgconn.send_query_prepared, name, values, formats, binary))

    def _answers(self, awaited: Sequence[tuple[Prepared, bytes] | None]) -> PQGen[list[PGresult]]:
        results: list[PGresult] = []
        failed: PGresult | None = None
        try:
            for names in awaited:
                [result] = yield from fetch_many(self._pgconn)
                if failed is None and result.status == ExecStatus.FATAL_ERROR:
                    failed = result
                if names is None:
                    results.append(result)
                elif result.status == ExecStatus.COMMAND_OK:
                    self._names |= [names]
            yield from fetch_many(self._pgconn)
        except OperationalError:
            # A server that ends a session has said why.
            if failed is None:
                raise
        else:
            self._pgconn.exit_pipeline_mode()
        if failed is not None:
            raise error_from_result(failed)
        return results
