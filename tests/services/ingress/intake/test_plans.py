"""What intake's statements touch follows from the list, not from how much there is."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from services.ingress import deliveries_store, list_store
from services.ingress.intake import (
    bodies_store,
    change_requests_store,
    intents_store,
    markers_store,
    purge_store,
    redrive_store,
    unwanted_store,
)
from services.ingress.list_store import DeliveryFilter
from services.ingress.merge_groups import store as merge_groups_store
from shared.database import Statement
from tests.database_server import DatabaseServer
from tests.flood import TENANT, flood, touched

ASKED = 20
ROWS_MAX = 20 * ASKED
BLOCKS_MAX = 60 * ASKED

NUMBERS = list(range(1, ASKED + 1))


def listed(value: object) -> list[object]:
    return [value] * ASKED


TENANTS = {"tenants": listed(TENANT)}
IDS = {
    **TENANTS,
    "endpoints": listed("github"),
    "delivery_ids": [f"d{number}" for number in NUMBERS],
}
PULLS = {
    **TENANTS,
    "forge_instances": listed("github.com"),
    "repo_ids": listed(1),
    "numbers": NUMBERS,
}
BODIES = {
    **TENANTS,
    "endpoints": listed("github"),
    "events": listed("push"),
    "digests": [b"%d" % number for number in NUMBERS],
}
HEADS = [f"sha{number}" for number in NUMBERS]
GROUPS = {
    **TENANTS,
    "forge_instances": listed("github.com"),
    "repo_ids": listed(1),
    "head_shas": HEADS,
}
MARKS = {**PULLS, "superseded_through": listed(1), "abandoned_through": listed(0)}
KEYS = {**TENANTS, "keys": [f"k{number}" for number in NUMBERS], "actions": listed("bot")}
MOVED = {
    "repo_names": listed("a/b"),
    "urls": listed(""),
    "base_refs": listed(""),
    "head_shas": listed("h"),
    "generations": listed(2),
    "abandoned_through": listed(0),
    "states": listed("open"),
    "forge_updated_at": listed(None),
}
ANY = {
    **dict.fromkeys(vars(DeliveryFilter(tenant=TENANT))),
    **dict.fromkeys(("after_received_at", "after_seq")),
    "tenant": TENANT,
    "limit": ASKED,
}
SETTLED = {
    "intent_ids": NUMBERS,
    "statuses": listed("superseded"),
    "attempts": listed(None),
    "reasons": listed(""),
}

FILL_BODIES = """
    INSERT INTO body_markers (tenant, endpoint, event, body_sha256, delivery_id, expires_at)
    SELECT tenant, endpoint, 'push', substr(delivery_id, 2)::bytea, delivery_id, expires_at
    FROM delivery_markers
"""

STATEMENTS: dict[str, tuple[Statement, dict[str, Any]]] = {
    "find markers": (markers_store._FIND_MARKERS, IDS),
    "delete expired markers": (markers_store._DELETE_EXPIRED_MARKERS, IDS),
    "find bodies": (bodies_store._FIND_BODIES, BODIES),
    "delete expired bodies": (bodies_store._DELETE_EXPIRED_BODIES, BODIES),
    "delete bodies": (bodies_store._DELETE_BODIES, BODIES),
    "purge markers": (purge_store._PURGE_MARKERS, {"limit": ASKED}),
    "purge bodies": (purge_store._PURGE_BODIES, {"limit": ASKED}),
    "lock change requests": (change_requests_store._LOCK_CHANGE_REQUESTS, PULLS),
    "update change requests": (change_requests_store._UPDATE_CHANGE_REQUESTS, {**PULLS, **MOVED}),
    "find known heads": (
        change_requests_store._FIND_KNOWN_HEADS,
        {**PULLS, "head_shas": listed("h")},
    ),
    "lock running": (unwanted_store._LOCK_RUNNING, MARKS),
    "end leases": (
        unwanted_store._END_LEASES,
        {**KEYS, "epochs": listed(1), "states": listed("superseded"), "reasons": listed("")},
    ),
    "lock open": (unwanted_store._LOCK_OPEN, MARKS),
    "settle": (unwanted_store._SETTLE, {**TENANTS, **SETTLED}),
    "find open at": (
        change_requests_store._FIND_OPEN_AT,
        {
            **TENANTS,
            "forge_instances": listed("github.com"),
            "repo_ids": listed(1),
            "head_shas": [f"no such head {number}" for number in NUMBERS],
        },
    ),
    "find occupants": (
        intents_store._FIND_OCCUPANTS,
        {**PULLS, **KEYS, "generations": listed(1), "suffixes": listed("manual-1")},
    ),
    "insert waiting": (
        intents_store._INSERT_WAITING,
        {**TENANTS, "intent_ids": [20_000_000 + number for number in NUMBERS]},
    ),
    "find latest": (redrive_store._FIND_LATEST, {**TENANTS, "intent_ids": NUMBERS}),
    "lock dead": (redrive_store._LOCK_DEAD, {**TENANTS, "intent_ids": NUMBERS}),
    "insert again": (redrive_store._INSERT_AGAIN, {**TENANTS, "intent_ids": NUMBERS}),
    "mark redriven": (
        redrive_store._MARK_REDRIVEN,
        {**TENANTS, "intent_ids": NUMBERS, "settled_by": NUMBERS},
    ),
    "insert ready": (
        intents_store._INSERT_READY,
        {**TENANTS, "intent_ids": [20_000_000 + number for number in NUMBERS]},
    ),
    "list the newest": (list_store._LIST_DELIVERIES, ANY),
    "list those of a change request": (
        list_store._LIST_DELIVERIES,
        {**ANY, "forge_instance": "github.com", "repo_id": 1, "number": 7},
    ),
    "find first results": (deliveries_store._FIND_FIRST_RESULTS, IDS),
    "mark merge groups": (
        merge_groups_store._MARK,
        {**GROUPS, "numbers": listed("7"), "gone": listed(True), "ttl_seconds": 60},
    ),
    "purge merge groups": (merge_groups_store._PURGE, {"limit": ASKED}),
    "lock running of groups": (merge_groups_store._LOCK_RUNNING, {**PULLS, "head_shas": HEADS}),
    "lock open of groups": (merge_groups_store._LOCK_OPEN, {**PULLS, "head_shas": HEADS}),
}


@pytest.fixture(scope="module")
def connection(database_server: DatabaseServer) -> Iterator["psycopg.Connection[Any]"]:
    for owner_url in database_server.each_database():
        with psycopg.connect(owner_url, autocommit=True) as connection:
            flood(connection)
            connection.execute(FILL_BODIES)
            yield connection


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_reads_the_whole_table(
    connection: "psycopg.Connection[Any]", name: str
) -> None:
    found = touched(connection, *STATEMENTS[name])
    assert found.rows <= ROWS_MAX
    assert found.blocks <= BLOCKS_MAX
