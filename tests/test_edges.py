"""The edges bind: what a service writes besides them fails, in every test's database."""

from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from typing import Any

import psycopg
import pytest
from psycopg import Connection, errors

from shared.schema.grants import Service
from shared.schema.states import Edge
from shared.schema.tables import metadata
from shared.schema.tables.base import SCHEMA
from tests.edges import MACHINES

DISPATCHER_SESSION = (
    "INSERT INTO sessions (session_id, tenant, key_id, queues, version, replica, state)"
    " VALUES ('s', 'acme', 'k', '{}', '', '', %s)"
)


@pytest.fixture
def dispatcher(
    owner_url: str, service_url: Callable[[Service], str]
) -> Iterator[Connection[tuple[Any, ...]]]:
    """A connection as the dispatcher, beside one session that its owner made."""
    with psycopg.connect(owner_url, options=f"-c search_path={SCHEMA}") as owner:
        owner.execute(DISPATCHER_SESSION, ["detached"])
    with psycopg.connect(service_url("dispatcher"), options=f"-c search_path={SCHEMA}") as ours:
        yield ours


def test_an_undeclared_change_of_state_fails_and_says_which(
    dispatcher: Connection[tuple[Any, ...]],
) -> None:
    undeclared = "undeclared transition of sessions.state: from detached to detached"
    with pytest.raises(errors.RaiseException, match=undeclared):
        dispatcher.execute("UPDATE sessions SET state = 'detached'")


def test_an_undeclared_beginning_fails_and_says_which(
    dispatcher: Connection[tuple[Any, ...]],
) -> None:
    with pytest.raises(errors.RaiseException, match="from <NULL> to detached"):
        dispatcher.execute(DISPATCHER_SESSION, ["detached"])


def test_a_declared_change_is_made(dispatcher: Connection[tuple[Any, ...]]) -> None:
    assert dispatcher.execute("UPDATE sessions SET state = 'open'").rowcount == 1


def test_every_machine_is_held(owner_url: str) -> None:
    with psycopg.connect(owner_url) as connection:
        rows = connection.execute(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgname LIKE 'refuse %'"
        ).fetchall()
    tables = [f"{SCHEMA}.{machine.partition('.')[0]}" for machine in MACHINES]
    assert sorted(rows) == sorted(
        (table, f"refuse {kind}") for table in tables for kind in ("insert", "update")
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_is_a_column_of_ours(machine: str) -> None:
    table, column = machine.split(".")
    assert column in metadata.tables[f"{SCHEMA}.{table}"].c


@pytest.mark.parametrize(
    "edge", [edge for edges in MACHINES.values() for edge in edges], ids=lambda edge: edge.when
)
def test_each_operation_that_takes_an_edge_is_there(edge: Edge) -> None:
    assert edge.operations
    for operation in edge.operations:
        assert callable(found(operation)), operation


def found(operation: str) -> object:
    """What a dotted name below `services` names."""
    room, _, rest = operation.partition("operations.")
    module = import_module(f"services.{room}operations")
    return attrgetter(rest)(module)
