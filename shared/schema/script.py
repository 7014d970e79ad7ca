"""The same as a migration, printed for an administrator where the owner may not make roles."""

from collections.abc import Iterable

from psycopg import Connection, sql

from shared.schema import facts, history, privileges, roles
from shared.schema.facts import Revision
from shared.schema.grants import SERVICES, Service, role_of
from shared.schema.revision import SCHEMA_REVISION
from shared.schema.tables.base import SCHEMA
from shared.schema.transaction import TURN, Limits, owner_transaction

HEADING = """\
-- Fencepost: the schema from revision {found} to {ours}, its roles and their privileges.
-- For an administrator who may make roles and become {owner}, connected to {database}:
--   psql -X -v ON_ERROR_STOP=1 -d {database} -f THIS_FILE"""

PASSWORD_REMINDER = """\
-- New roles have no password and cannot log in until they get the one of their
-- <SERVICE>_DATABASE_URL, in psql:{commands}"""


def migration_script(owner_url: str, limits: Limits) -> str:
    """SQL for psql, in one transaction and without any secret; raises a MigrationRefusedError."""
    with owner_transaction(owner_url, limits) as transaction:
        connection = transaction.connection
        connection.execute("SET TRANSACTION READ ONLY")
        found = facts.read_revision(connection)
        if facts.is_ahead(found):
            return f"-- The schema, revision {found.revision}, is newer than this code."
        absent = roles.missing(connection)
        return "\n".join(
            [
                _heading(connection, found),
                *_reminder(absent),
                "BEGIN;",
                *_text(connection, _before(limits, absent, owner=transaction.owner)),
                _upgrade(found),
                *_text(connection, _after(connection)),
                "COMMIT;",
            ]
        )


def _heading(connection: Connection, found: Revision) -> str:
    info = connection.info
    return HEADING.format(
        found=found.revision, ours=SCHEMA_REVISION, owner=info.user, database=info.dbname
    )


def _reminder(absent: Iterable[Service]) -> list[str]:
    commands = "".join(f"\n--   \\password {role_of(service)}" for service in absent)
    return [PASSWORD_REMINDER.format(commands=commands)] if commands else []


def _before(limits: Limits, absent: Iterable[Service], *, owner: str) -> list[sql.Composable]:
    """What the administrator does, up to becoming the owner, to whom all tables shall belong."""
    owned = {"schema": sql.Identifier(SCHEMA), "owner": sql.Identifier(owner)}
    return [
        sql.SQL("SET LOCAL lock_timeout = {}").format(f"{limits.lock_timeout_ms}ms"),
        sql.SQL("SELECT pg_advisory_xact_lock({})").format(TURN),
        *roles.script(absent),
        sql.SQL("CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {owner}").format(**owned),
        sql.SQL("SET LOCAL ROLE {owner}").format(**owned),
    ]


def _upgrade(found: Revision) -> str:
    lacking = history.steps_after(found.revision)
    return history.upgrade_script(found.revision) if lacking else "-- No migration is pending."


def _after(connection: Connection) -> list[sql.Composable]:
    return [
        facts.write_revision(),
        facts.write_incarnation(connection),
        *privileges.script(role_of(service) for service in SERVICES),
    ]


def _text(connection: Connection, statements: Iterable[sql.Composable]) -> list[str]:
    return [f"{statement.as_string(connection)};" for statement in statements]
