"""States and edges are declared once: enum, CHECK constraint and edges tell the same."""

import re
from enum import StrEnum

import psycopg
import pytest

from shared.schema import states
from shared.schema.tables import metadata, publications, work
from tests.edges import MACHINES

COLUMNS: dict[str, type[StrEnum]] = {
    "deliveries.outcome": states.DeliveryOutcome,
    "change_requests.state": states.ChangeRequestState,
    "intents.status": states.IntentStatus,
    "waiting.waits_on": states.WaitsOn,
    "leases.state": states.LeaseState,
    "dispatches.outcome": states.DispatchOutcome,
    "sessions.state": states.SessionState,
    "runs.analysis_status": states.AnalysisStatus,
    "publication_attempts.status": states.AttemptStatus,
}


def checked_values(url: str, column: str) -> set[str]:
    """What the column's CHECK constraint lets in, read from the database."""
    table, name = column.split(".")
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s",
            [f"{table}_{name}_check"],
        ).fetchone()
    assert row is not None, column
    return set(re.findall(r"'(\w+)'", row[0]))


def test_each_state_column_takes_the_declared_states_and_no_other(migrated_url: str) -> None:
    for column, declared in COLUMNS.items():
        assert checked_values(migrated_url, column) == {str(state) for state in declared}, column


@pytest.mark.parametrize("column", MACHINES)
def test_edges_join_the_states_of_their_column_each_pair_once(column: str) -> None:
    edges = MACHINES[column]
    assert {type(state) for edge in edges for state in (edge.source, edge.target)} == {
        COLUMNS[column],
        type(None),
    }
    assert len({(edge.source, edge.target) for edge in edges}) == len(edges)


def test_the_default_of_an_intent_is_where_its_edges_begin() -> None:
    (beginning,) = (edge.target for edge in states.INTENT_EDGES if edge.source is None)
    default = work.intents.c.status.server_default
    assert default is not None
    assert f"'{beginning}'" in str(vars(default)["arg"])


def test_partial_indexes_name_the_declared_sets() -> None:
    def predicate(table_indexes: object, name: str) -> str:
        assert isinstance(table_indexes, set)
        (index,) = (index for index in table_indexes if index.name == name)
        return str(index.dialect_options["postgresql"]["where"])

    blocking = predicate(publications.publication_attempts.indexes, BLOCKING)
    occupied = predicate(work.intents.indexes, OCCUPIED)
    assert set(re.findall(r"'(\w+)'", blocking)) == set(states.ATTEMPTS_THAT_BLOCK)
    assert set(re.findall(r"'(\w+)'", occupied)) == set(states.INTENTS_THAT_OCCUPY)


BLOCKING = "publication_attempts_blocking_key"
OCCUPIED = "intents_occupied_key"


def test_every_check_on_a_state_is_known_here() -> None:
    listed = {
        f"{table.name}.{constraint.name}"
        for table in metadata.tables.values()
        for constraint in table.constraints
        if " IN ('" in str(getattr(constraint, "sqltext", ""))
    }
    named = {f"{c.split('.')[0]}.{c.replace('.', '_')}_check" for c in COLUMNS}
    assert {str(each) for each in listed} - named == OTHER_LISTS


OTHER_LISTS = {
    "connections.connections_forge_check",
    "dispatches.dispatches_disposition_check",
    "endpoints.endpoints_drafts_check",
    "endpoints.endpoints_forge_check",
}
