"""One connection: its session options, and waits that always end.

A server that is frozen, or behind a network that swallows packets, keeps a socket open and says
nothing. So every wait here has a budget of its own; when it is over the socket is shut, which ends
the wait as if the server had hung up.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from shared.database.adapters import ADAPTERS
from shared.database.overdue import Overdue
from shared.database.wire import Query, Wire
from shared.settings import RuntimeSettings

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
SEARCH_PATH = "fencepost"
ANSWER_MARGIN_MS = 500
"""What an answer may take beyond the time the server itself allows a statement."""

ROLLBACK = Query(b"ROLLBACK", controls=True)
NOTHING_OPEN = (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)
TCP_OPTIONS: dict[str, str | int | None] = {
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}

PINNED_PLANS = {
    "plan_cache_mode": "force_custom_plan",
    "enable_seqscan": "off",
    # Where only a sequential scan is possible its penalty would make PostgreSQL compile the query.
    "jit": "off",
}
"""Plans follow from the statement, not from statistics that a fresh table does not have."""


@dataclass(frozen=True)
class Session:
    """How connections are made and transactions begin."""

    conninfo: str
    place: str
    application_name: str
    connect_timeout_ms: int
    answer_timeout_ms: int
    prepare: bool
    begin: tuple[Query, ...]
    begin_read_only: tuple[Query, ...]

    @classmethod
    def of(cls, settings: RuntimeSettings, *, application_name: str) -> Self:
        """Options are set at connect; behind PgBouncer there is no session, so in each BEGIN."""
        theirs = conninfo_to_dict(settings.database_url.get_secret_value())
        chosen = _options(settings)
        if settings.database_prepare:
            theirs["options"] = _startup_options(chosen, str(theirs.get("options", "")))
        local = {} if settings.database_prepare else chosen
        return cls(
            conninfo=make_conninfo(
                "",
                **{
                    **TCP_OPTIONS,
                    **theirs,
                    "application_name": application_name,
                    # Arrays of text are written in it, whatever the environment asks for.
                    "client_encoding": "UTF8",
                },
            ),
            place=f"{theirs.get('host', '')}:{theirs.get('port', '')}/{theirs.get('dbname', '')}",
            application_name=application_name,
            connect_timeout_ms=settings.database_connect_timeout_ms,
            answer_timeout_ms=settings.database_statement_timeout_ms + ANSWER_MARGIN_MS,
            prepare=settings.database_prepare,
            begin=_begin(BEGIN, local),
            begin_read_only=_begin(f"{BEGIN} READ ONLY", local),
        )


@dataclass
class LastFault:
    """Why the last attempt to connect failed; empty when it did not."""

    sentence: str = ""


def _sentence(error: psycopg.Error) -> str:
    first_line = str(error).partition("\n")[0]
    if "unsupported startup parameter" in first_line:
        return f"{first_line} (behind PgBouncer set DATABASE_PREPARE to false)"
    return first_line


def _options(settings: RuntimeSettings) -> dict[str, str]:
    return {
        "search_path": SEARCH_PATH,
        "timezone": "UTC",
        "statement_timeout": str(settings.database_statement_timeout_ms),
        "lock_timeout": str(settings.database_lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(
            settings.database_idle_in_transaction_timeout_ms
        ),
        "client_connection_check_interval": "1000",
        **PINNED_PLANS,
    }


def _startup_options(options: dict[str, str], theirs: str) -> str:
    ours = " ".join(f"-c {name}={value}" for name, value in options.items())
    return f"{ours} {theirs}".strip()


def _begin(begin: str, options: dict[str, str]) -> tuple[Query, ...]:
    local = [f"SET LOCAL {name} = '{value}'" for name, value in options.items()]
    return tuple(Query(each.encode(), controls=True) for each in (begin, *local))


class Connection(AsyncConnection[TupleRow]):
    """A psycopg connection in autocommit: BEGIN and COMMIT are statements of ours."""

    session: Session
    overdue: Overdue
    wire: Wire
    is_spent = False

    @classmethod
    async def connect(  # type: ignore[override]  # only the pool calls it, with these
        cls, conninfo: str, *, session: Session, overdue: Overdue, last_fault: LastFault
    ) -> Self:
        """Connects within the connect timeout; raises psycopg.OperationalError."""
        try:
            async with asyncio.timeout(session.connect_timeout_ms / 1000):
                connection = await super().connect(conninfo, autocommit=True, context=ADAPTERS)
        except TimeoutError:
            last_fault.sentence = f"no connection within {session.connect_timeout_ms} ms"
            raise errors.ConnectionTimeout(last_fault.sentence) from None
        except psycopg.Error as error:
            last_fault.sentence = _sentence(error)
            raise
        last_fault.sentence = ""
        connection.session = session
        connection.overdue = overdue
        connection.wire = Wire(connection, prepare=session.prepare)
        return connection

    async def exchange(self, queries: Sequence[Query]) -> list[PGresult]:
        """Runs statements in one round trip; the result of each.

        Raises the error of the first that failed: those after it did nothing.
        """
        async with self.lock:
            self.overdue.wait_begins(self)
            try:
                return await self.wait(self.wire.exchange(queries))
            finally:
                self.overdue.wait_ends(self)

    async def roll_back_all(self) -> None:
        """Rolls back what is open; a connection that cannot is closed."""
        if self.pgconn.transaction_status in NOTHING_OPEN:
            return
        try:
            await self.exchange([ROLLBACK])
        except psycopg.Error:
            await self.close()

    def sever(self) -> None:
        """Shuts the socket, so that whoever waits for an answer is told that there is none."""
        if self.closed:
            return
        with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as ours:
            # What is shut already wakes the waiting one by itself.
            ours.shutdown(socket.SHUT_RDWR)
