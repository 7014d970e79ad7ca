"""What the database says of itself: its revision, the oldest code that may run, its incarnation."""

from dataclasses import dataclass

from psycopg import Connection, sql

from shared.schema.refusals import CodeTooOldError
from shared.schema.revision import OLDEST_CODE, SCHEMA_REVISION

UNKNOWN_SYSTEM = "unknown"
"""Stands for the system identifier where the owner may not read it."""

_SYSTEM = sql.SQL("(SELECT system_identifier::text FROM pg_control_system())")
_SYSTEM_UNKNOWN = sql.Literal(UNKNOWN_SYSTEM)
_TIMELINE = sql.SQL("(SELECT timeline_id FROM pg_control_checkpoint())")
_TIMELINE_BY_NAME = sql.SQL(
    "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer"
)

_WRITE_REVISION = sql.SQL("""\
INSERT INTO fencepost.schema_revision (revision, oldest_code)
VALUES ({}, {})
ON CONFLICT (singleton) DO UPDATE
SET revision = excluded.revision, oldest_code = excluded.oldest_code,
    migrated_at = excluded.migrated_at
WHERE (schema_revision.revision, schema_revision.oldest_code)
    IS DISTINCT FROM (excluded.revision, excluded.oldest_code)""")

_WRITE_INCARNATION = sql.SQL("""\
INSERT INTO fencepost.incarnations (system_identifier, timeline, database_oid)
SELECT {system}, {timeline}, oid
FROM pg_database
WHERE datname = current_database() AND NOT EXISTS (SELECT FROM fencepost.incarnations)""")


@dataclass(frozen=True, slots=True)
class Revision:
    """Revision of a schema, and the oldest code that may run on it; 0 and 0 without a schema."""

    revision: int
    oldest_code: int


def read_revision(connection: Connection) -> Revision:
    """What the schema row says."""
    present = connection.execute("SELECT to_regclass('fencepost.schema_revision')").fetchone()
    if present is None or present[0] is None:
        return Revision(0, 0)
    row = connection.execute(
        "SELECT revision, oldest_code FROM fencepost.schema_revision"
    ).fetchone()
    return Revision(*row) if row else Revision(0, 0)


def is_ahead(found: Revision) -> bool:
    """Whether the schema is newer than this code; raises CodeTooOldError if it left it behind."""
    if found.oldest_code > SCHEMA_REVISION:
        raise CodeTooOldError(
            found=found.revision, oldest_code=found.oldest_code, ours=SCHEMA_REVISION
        )
    return found.revision > SCHEMA_REVISION


def write_revision() -> sql.Composed:
    """The statement that says the schema is what this code declares."""
    return _WRITE_REVISION.format(SCHEMA_REVISION, OLDEST_CODE)


def write_incarnation(connection: Connection) -> sql.Composed:
    """The statement that records this copy of the database, unless one is recorded (P12).

    Where PostgreSQL's control functions are kept from the owner, the timeline is read from the
    name of a log file and the system stays unknown.
    """
    system = _SYSTEM if _may_run(connection, "pg_control_system()") else _SYSTEM_UNKNOWN
    may_read_timeline = _may_run(connection, "pg_control_checkpoint()")
    timeline = _TIMELINE if may_read_timeline else _TIMELINE_BY_NAME
    return _WRITE_INCARNATION.format(system=system, timeline=timeline)


def _may_run(connection: Connection, function: str) -> bool:
    row = connection.execute("SELECT has_function_privilege(%s, 'EXECUTE')", [function]).fetchone()
    return row is not None and bool(row[0])
