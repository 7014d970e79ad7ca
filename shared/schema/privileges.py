"""The services' privileges in a database, held to what `shared.schema.grants` declares (X2).

Only the four roles and PUBLIC are looked at: what an administrator gives to others is not ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from psycopg import Connection, errors, sql

from shared.schema.grants import GRANTS, SEQUENCE_USAGE, SERVICES, role_of
from shared.schema.refusals import SchemaStrayedError
from shared.schema.tables.base import SCHEMA

Kind = Literal["SCHEMA", "TABLE", "SEQUENCE"]
Direction = Literal["GRANT", "REVOKE"]

PUBLIC = "PUBLIC"

_HELD = """
WITH held AS (
    SELECT 'SCHEMA' AS kind, '' AS name, '' AS column_name, acl.*
    FROM pg_namespace s, aclexplode(s.nspacl) AS acl
    WHERE s.nspname = %(schema)s
    UNION ALL
    SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname, '', acl.*
    FROM pg_class c, aclexplode(c.relacl) AS acl
    WHERE c.relnamespace = to_regnamespace(%(schema)s)
    UNION ALL
    SELECT 'TABLE', c.relname, a.attname, acl.*
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) AS acl
    WHERE c.relnamespace = to_regnamespace(%(schema)s) AND NOT a.attisdropped
)
SELECT coalesce(r.rolname, %(public)s), h.kind, h.name, h.privilege_type, h.column_name,
    h.is_grantable
FROM held h LEFT JOIN pg_roles r ON r.oid = h.grantee
WHERE h.grantee = 0 OR r.rolname = ANY (%(roles)s)
"""


@dataclass(frozen=True, slots=True, order=True)
class Privilege:
    """One verb that one role may use on one object, or on one column of it."""

    role: str
    kind: Kind
    name: str
    verb: str
    column: str = ""
    grantable: bool = False

    def __str__(self) -> str:
        column = f" ({self.column})" if self.column else ""
        option = " with grant option" if self.grantable else ""
        where = f"{SCHEMA}.{self.name}" if self.name else SCHEMA
        return f"{self.verb}{column} on {self.kind.lower()} {where} for {self.role}{option}"


@dataclass(frozen=True, slots=True)
class Difference:
    """What separates a database from the declaration, in order."""

    to_grant: tuple[Privilege, ...]
    to_revoke: tuple[Privilege, ...]


def declared() -> frozenset[Privilege]:
    """Every privilege of the services' roles."""
    usage = {Privilege(role_of(service), "SCHEMA", "", "USAGE") for service in SERVICES}
    numbers = {Privilege(role_of(s), "SEQUENCE", name, "USAGE") for s, name in SEQUENCE_USAGE}
    tables = {
        Privilege(role_of(grant.service), "TABLE", grant.table, grant.verb, column)
        for grant in GRANTS
        for column in (grant.columns or ("",))
    }
    return frozenset(usage | numbers | tables)


def held(connection: Connection) -> frozenset[Privilege]:
    """Every privilege that the four roles and PUBLIC have in the schema."""
    known = {"schema": SCHEMA, "public": PUBLIC, "roles": [role_of(s) for s in SERVICES]}
    return frozenset(Privilege(*row) for row in connection.execute(_HELD, known))


def difference(connection: Connection) -> Difference:
    """What is to be granted and revoked until the database is as declared."""
    wanted, present = declared(), held(connection)
    return Difference(tuple(sorted(wanted - present)), tuple(sorted(present - wanted)))


def conform(connection: Connection) -> int:
    """Revokes what is not declared, grants what is missing; returns how many differed.

    Raises SchemaStrayedError where there is nothing that it could be granted on.
    """
    undeclared = difference(connection).to_revoke
    _execute(connection, _statements("REVOKE", undeclared))
    # Asked again, as a verb revoked from a table is revoked from its columns too.
    missing = difference(connection).to_grant
    try:
        _execute(connection, _statements("GRANT", missing))
    except (errors.UndefinedTable, errors.UndefinedColumn) as lacking:
        raise SchemaStrayedError(str(lacking.diag.message_primary)) from lacking
    return len(undeclared) + len(missing)


def script(roles: Iterable[str]) -> list[sql.Composable]:
    """Statements that make any database as declared, without a look at it."""
    everybody = sql.SQL(", ").join([*(sql.Identifier(role) for role in roles), sql.SQL(PUBLIC)])
    schema = sql.Identifier(SCHEMA)
    cleared: list[sql.Composable] = [
        sql.SQL("REVOKE ALL ON {} {} FROM {}").format(sql.SQL(which), schema, everybody)
        for which in ("ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA", "SCHEMA")
    ]
    return [*cleared, *_statements("GRANT", declared())]


def _execute(connection: Connection, statements: list[sql.Composable]) -> None:
    if statements:
        connection.execute(sql.SQL(";\n").join(statements))


def _statements(direction: Direction, privileges: Iterable[Privilege]) -> list[sql.Composable]:
    by_object = groupby(sorted(privileges), key=lambda p: (p.role, p.kind, p.name))
    return [_statement(direction, list(group)) for _, group in by_object]


def _statement(direction: Direction, privileges: list[Privilege]) -> sql.Composable:
    first = privileges[0]
    name = sql.Identifier(SCHEMA, first.name) if first.name else sql.Identifier(SCHEMA)
    role = sql.SQL(PUBLIC) if first.role == PUBLIC else sql.Identifier(first.role)
    return sql.SQL("{} {} ON {} {} {} {}").format(
        sql.SQL(direction),
        sql.SQL(", ").join(_verb(verb, list(p)) for verb, p in groupby(privileges, _by_verb)),
        sql.SQL(first.kind),
        name,
        sql.SQL("TO" if direction == "GRANT" else "FROM"),
        role,
    )


def _by_verb(privilege: Privilege) -> tuple[str, bool]:
    return privilege.verb, bool(privilege.column)


def _verb(verb: tuple[str, bool], privileges: list[Privilege]) -> sql.Composable:
    name, has_columns = verb
    if not has_columns:
        return sql.SQL(name)
    columns = sql.SQL(", ").join(sql.Identifier(p.column) for p in privileges)
    return sql.SQL("{} ({})").format(sql.SQL(name), columns)
