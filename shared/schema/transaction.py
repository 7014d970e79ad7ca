"""The one transaction of a migration: opened as the owner, its faults turned into sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import sqlalchemy
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from shared.schema.refusals import (
    DatabaseUnreachableError,
    LockNotObtainedError,
    MigrationRefusedError,
    OwnerNotAllowedError,
    ServerTooOldError,
    TurnNotComeError,
)

OLDEST_MAJOR = 15
CONNECT_TIMEOUT_S = 10
SHOWN_STATEMENT_CHARACTERS = 100

TURN = 0x66656E6365706F73
"""Key of the advisory lock that migrations of one database take: "fencepos" in hexadecimal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a migration waits."""

    lock_timeout_ms: int = 5_000
    turn_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class OwnerTransaction:
    """One open transaction, for statements of our own and, through SQLAlchemy, for Alembic."""

    connection: psycopg.Connection
    alchemy: sqlalchemy.Connection

    @property
    def owner(self) -> str:
        """Name of the role that migrates."""
        return self.connection.info.user


@contextmanager
def owner_transaction(owner_url: str, limits: Limits) -> Iterator[OwnerTransaction]:
    """Commits when the block ends well; raises a MigrationRefusedError for what is foreseen.

    It is one transaction from first to last, so it also works through a transaction pooler.
    """
    connection = _connect(owner_url)
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: connection, poolclass=StaticPool
    )
    try:
        with engine.begin() as alchemy:
            yield OwnerTransaction(connection, alchemy)
    except (DBAPIError, psycopg.Error) as failure:
        refusal = _refusal(failure, owner_url, limits)
        if refusal is None:
            raise
        raise refusal from failure
    finally:
        connection.close()


def take_turn(connection: psycopg.Connection, limits: Limits) -> None:
    """Waits until no other migration of this database is under way; raises TurnNotComeError.

    The lock is the transaction's, so nothing can be left behind. Later waits for locks are bounded.
    """
    _set_lock_timeout(connection, limits.turn_timeout_ms)
    try:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [TURN])
    except errors.LockNotAvailable as late:
        raise TurnNotComeError(limits.turn_timeout_ms) from late
    # A migration that waits for a lock makes everybody wait behind it.
    _set_lock_timeout(connection, limits.lock_timeout_ms)


def _set_lock_timeout(connection: psycopg.Connection, timeout_ms: int) -> None:
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [f"{timeout_ms}ms"])


def _connect(owner_url: str) -> psycopg.Connection:
    try:
        connection = psycopg.connect(
            owner_url,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="fencepost migrate",
            prepare_threshold=None,
        )
    except psycopg.OperationalError as failure:
        raise DatabaseUnreachableError(_where(owner_url), _first_line(failure)) from failure
    major = connection.info.server_version // 10_000
    if major < OLDEST_MAJOR:
        connection.close()
        raise ServerTooOldError(major=major, oldest=OLDEST_MAJOR)
    return connection


def _refusal(
    failure: DBAPIError | psycopg.Error, owner_url: str, limits: Limits
) -> MigrationRefusedError | None:
    statement = failure.statement if isinstance(failure, DBAPIError) else None
    match failure.orig if isinstance(failure, DBAPIError) else failure:
        case errors.LockNotAvailable():
            shown = (statement or "reading the catalog").strip().partition("\n")[0]
            return LockNotObtainedError(limits.lock_timeout_ms, shown[:SHOWN_STATEMENT_CHARACTERS])
        case errors.InsufficientPrivilege() as refused:
            return OwnerNotAllowedError(_user(owner_url), _first_line(refused))
        case psycopg.OperationalError() as lost:
            return DatabaseUnreachableError(_where(owner_url), _first_line(lost))
        case _:
            return None


def _where(owner_url: str) -> str:
    parts = conninfo_to_dict(owner_url)
    return (
        f"{parts.get('dbname', '')} at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
    )


def _user(owner_url: str) -> str:
    return str(conninfo_to_dict(owner_url).get("user", "the user of DATABASE_URL"))


def _first_line(failure: BaseException) -> str:
    return str(failure).strip().partition("\n")[0]
