"""Holds the statements of every service to the declared edges, in each test database.

The owner is exempt: tests play as it whatever went before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from psycopg import Connection, sql

from shared.schema import states
from shared.schema.grants import Service
from shared.schema.states import Edge
from shared.schema.tables.base import SCHEMA

MACHINES: Mapping[str, Sequence[Edge]] = MappingProxyType(
    {
        "intents.status": states.INTENT_EDGES,
        "leases.state": states.LEASE_EDGES,
        "sessions.state": states.SESSION_EDGES,
        "publication_attempts.status": states.ATTEMPT_EDGES,
    }
)
"""The columns whose values follow edges."""

Step = tuple[str | None, str]
"""Old and new state; none before an insert."""

# Beside our schema, whose content is compared with what is declared.
REFUSE = """
    CREATE SCHEMA edges;
    CREATE FUNCTION edges.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'undeclared transition of %.%: from % to %', TG_TABLE_NAME, TG_ARGV[0],
                to_jsonb(OLD) ->> TG_ARGV[0], to_jsonb(NEW) ->> TG_ARGV[0];
        END
    $$
"""
NOTE = """
    CREATE TABLE edges.taken (machine text, source text, target text);
    CREATE FUNCTION edges.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
            INSERT INTO edges.taken VALUES (TG_TABLE_NAME || '.' || TG_ARGV[0],
                to_jsonb(OLD) ->> TG_ARGV[0], to_jsonb(NEW) ->> TG_ARGV[0]);
            RETURN NULL;
        END
    $$
"""
TRIGGERS = """
    CREATE TRIGGER {insert} {moment} INSERT ON {table} FOR EACH ROW
        WHEN (current_user <> {owner} AND {insert_condition})
        EXECUTE FUNCTION {function}({column_name});
    CREATE TRIGGER {update} {moment} UPDATE OF {column} ON {table} FOR EACH ROW
        WHEN (current_user <> {owner} AND {update_condition})
        EXECUTE FUNCTION {function}({column_name})
"""


def hold_to_edges(connection: Connection[Any]) -> None:
    """From now on a service's statement that takes an undeclared edge fails."""
    connection.execute(REFUSE)
    for machine, edges in MACHINES.items():
        _install(connection, machine, function="refuse", moment="BEFORE", unless=declared(edges))


def note_edges(connection: Connection[Any]) -> Callable[[], dict[str, set[Step]]]:
    """From now on notes what services do; the result tells which edges were taken so far."""
    connection.execute(NOTE)
    for machine in MACHINES:
        _install(connection, machine, function="note", moment="AFTER", unless=set())

    def taken() -> dict[str, set[Step]]:
        rows = connection.execute("SELECT DISTINCT * FROM edges.taken").fetchall()
        return {
            machine: {(source, target) for found, source, target in rows if found == machine}
            for machine in MACHINES
        }

    return taken


def declared(edges: Iterable[Edge]) -> set[Step]:
    """The same as plain words."""
    return {(edge.source and str(edge.source), str(edge.target)) for edge in edges}


def declared_of(service: Service) -> dict[str, set[Step]]:
    """The edges of each machine that operations of this service take."""

    def takes(edge: Edge) -> bool:
        return any(operation.startswith(f"{service}.") for operation in edge.operations)

    return {machine: declared(filter(takes, edges)) for machine, edges in MACHINES.items()}


def _install(
    connection: Connection[Any], machine: str, *, function: str, moment: str, unless: set[Step]
) -> None:
    table, column = machine.split(".")
    connection.execute(
        sql.SQL(TRIGGERS).format(
            insert=sql.Identifier(f"{function} insert"),
            update=sql.Identifier(f"{function} update"),
            moment=sql.SQL(moment),
            table=sql.Identifier(SCHEMA, table),
            owner=sql.Literal(connection.info.user),
            function=sql.Identifier("edges", function),
            column=sql.Identifier(column),
            column_name=sql.Literal(column),
            insert_condition=_none_of(
                sql.SQL("NEW.{}").format(sql.Identifier(column)),
                [sql.Literal(target) for source, target in unless if source is None],
            ),
            update_condition=_none_of(
                sql.SQL("(OLD.{0}, NEW.{0})").format(sql.Identifier(column)),
                [
                    sql.SQL("({}, {})").format(source, target)
                    for source, target in unless
                    if source is not None
                ],
            ),
        )
    )


def _none_of(value: sql.Composable, listed: Sequence[sql.Composable]) -> sql.Composable:
    if not listed:
        return sql.SQL("true")
    return sql.SQL("{} NOT IN ({})").format(value, sql.SQL(", ").join(listed))
