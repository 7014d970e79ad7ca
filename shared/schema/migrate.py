"""Brings a database to the declared schema, roles and privileges: one transaction, or nothing.

Only `python -m services migrate` and the launcher come here; services never do (X3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from psycopg import Connection, sql

from shared.schema import facts, history, privileges, roles
from shared.schema.facts import Revision
from shared.schema.grants import Service, role_of
from shared.schema.history import Step
from shared.schema.revision import SCHEMA_REVISION
from shared.schema.tables.base import SCHEMA
from shared.schema.transaction import Limits, OwnerTransaction, owner_transaction, take_turn

NO_PASSWORDS: Mapping[Service, str] = MappingProxyType({})
DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationResult:
    """What one run did; a second run does nothing."""

    found: int
    revision: int
    steps: tuple[Step, ...] = ()
    roles_made: tuple[str, ...] = ()
    privileges_changed: int = 0


def migrate(
    owner_url: str,
    *,
    role_passwords: Mapping[Service, str] | None = None,
    replace_passwords: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> MigrationResult:
    """Migrates the database of the owner's URL; safe from several processes at once.

    Roles that exist get the given passwords too, unless `replace_passwords` is off. A schema that
    is newer than this code is left as it is. Raises a MigrationRefusedError, whose text says what
    to do; then nothing was changed.
    """
    with owner_transaction(owner_url, limits) as transaction:
        connection = transaction.connection
        take_turn(connection, limits)
        found = facts.read_revision(connection)
        if facts.is_ahead(found):
            return MigrationResult(found=found.revision, revision=found.revision)
        made = roles.ensure(
            connection,
            owner_url,
            role_passwords or NO_PASSWORDS,
            replace_passwords=replace_passwords,
        )
        steps = _upgrade(transaction, found)
        return MigrationResult(
            found=found.revision,
            revision=SCHEMA_REVISION,
            steps=steps,
            roles_made=made,
            privileges_changed=privileges.conform(connection),
        )


def pending(owner_url: str) -> tuple[str, ...]:
    """What a migration would do, a phrase each; raises a MigrationRefusedError."""
    with owner_transaction(owner_url, DEFAULT_LIMITS) as transaction:
        connection = transaction.connection
        connection.execute("SET TRANSACTION READ ONLY")
        found = facts.read_revision(connection)
        if facts.is_ahead(found):
            return ()
        steps = history.steps_after(found.revision)
        absent = roles.missing(connection)
        return (
            *(f"migration {step}" for step in steps),
            *(f"role {role_of(service)} is missing" for service in absent),
            *(f"role {role} {fault}" for role, fault in roles.faults(connection)),
            *(() if steps else _differences(connection)),
        )


def _upgrade(transaction: OwnerTransaction, found: Revision) -> tuple[Step, ...]:
    connection = transaction.connection
    steps = history.steps_after(found.revision)
    if steps:
        _make_schema(connection)
        history.upgrade(transaction.alchemy)
    connection.execute(facts.write_revision())
    connection.execute(facts.write_incarnation(connection))
    return steps


def _make_schema(connection: Connection) -> None:
    # IF NOT EXISTS asks for the right to make schemas even where the schema exists.
    present = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", [SCHEMA]).fetchone()
    if present == (False,):
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))


def _differences(connection: Connection) -> list[str]:
    difference = privileges.difference(connection)
    return [
        *(f"grant {privilege}" for privilege in difference.to_grant),
        *(f"revoke {privilege}" for privilege in difference.to_revoke),
    ]
