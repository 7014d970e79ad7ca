"""What a database error means: run it again, refuse the caller, or a fault of ours."""

import psycopg
import structlog
from fencepost.errors import DatabaseUnavailable, FencepostError, Overloaded
from psycopg import errors

from shared.metrics import DATABASE_OUTCOME_UNKNOWN, DATABASE_UNAVAILABLE

CONFLICTS = (errors.DeadlockDetected, errors.SerializationFailure)
"""40P01 and 40001: the transaction was rolled back whole and may be run again (X7)."""

SERVER_AWAY = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.TooManyConnections,
    errors.DiskFull,
    errors.OutOfMemory,
    # The server is a standby now: writes belong to another one.
    errors.ReadOnlySqlTransaction,
    # Our own statement timeout: what is too slow is as good as away.
    errors.QueryCanceled,
)


ROW_REFUSED = (errors.DataError, errors.IntegrityError, errors.ProgramLimitExceeded)
"""A row that the server will not have, whoever sends it again; its transaction is rolled back."""

log = structlog.get_logger(__name__)


class RowLocked(Overloaded):
    """Another transaction kept a row locked for longer than a statement waits."""

    sentence = "A row was locked too long: call again after {retry_after_ms} ms."


class StatementFaultHiddenError(AssertionError):
    """An operation went on after a failed statement, so its commit was a rollback."""

    def __init__(self) -> None:
        super().__init__("a statement failed, its error was caught, and the transaction went on")


def refuse(error: psycopg.Error, *, lost: bool, committing: bool) -> None:
    """Raises the refusal that callers get; returns if the error is a fault of ours.

    `lost` says that the connection is gone. Lost while committing, nobody knows the outcome (X6).
    Raises DatabaseUnavailable, RowLocked.
    """
    if lost and committing:
        DATABASE_OUTCOME_UNKNOWN.inc()
        log.warning("the answer to a commit was lost: its outcome is unknown", why=_why(error))
        raise DatabaseUnavailable(outcome_unknown=True) from error
    if lost or isinstance(error, SERVER_AWAY):
        DATABASE_UNAVAILABLE.inc()
        log.warning("a transaction was lost: nothing was written", why=_why(error))
        raise DatabaseUnavailable from error
    if isinstance(error, errors.LockNotAvailable):
        raise RowLocked from error


def no_connection() -> FencepostError:
    """The refusal for a caller who got no connection: nothing was begun."""
    DATABASE_UNAVAILABLE.inc()
    return DatabaseUnavailable()


def _why(error: psycopg.Error) -> str:
    first_line = str(error).partition("\n")[0]
    return f"{error.sqlstate} {first_line}" if error.sqlstate else first_line


def still_in_conflict() -> FencepostError:
    """The refusal after the last attempt that met a conflict; everything was rolled back."""
    return Overloaded(message="Others changed the same rows again and again: call again later.")
