"""What a statement touches follows from what it was asked, not from how much there is.

Of ingress, publisher and watchdog; those of the dispatcher have a test of their own.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from services.ingress import deliveries_store
from services.publisher.holds import store as holds
from services.publisher.ledger import store as ledger
from services.publisher.ledger import store_fence
from services.watchdog.access import store as access
from services.watchdog.status import figures_store
from services.watchdog.timeline import store as timeline
from services.watchdog.timeline import work_store
from shared.database import Statement
from tests.database_server import DatabaseServer
from tests.flood import ROWS, TENANT, flood, touched

ASKED = 20
ROWS_PER_ASKED_MAX = 3
BLOCKS_PER_ASKED_MAX = 20

IDS = list(range(1, ASKED + 1))
KEYS = [f"k{number}" for number in IDS]
OURS = {"tenant": TENANT}
PULL = {**OURS, "forge_instance": "github.com", "repo_id": 1, "number": 7}
WORK = {**OURS, "key": "k7", "action": "bot"}
DELIVERY = {**OURS, "endpoint": "github", "delivery_id": "d7"}
REQUEST = {**OURS, "method": "m", "request_id": "r7"}
KEY = {**OURS, "key_id": "key7"}
ATTEMPT = {**OURS, "publication_id": 7, "attempt": 1, "claim_token": "c"}
SETTLED = {"status": "absent", "detail": "", "remote_id": None, "remote_url": None, "result": None}
IDENTITY = {"generation": 1, "name": "r", "kind": "review", "target": "t", "ordinal": 0}
OF_KEYS = {**OURS, "keys": KEYS, "limit": 1000}
OF_INTENTS = {**OURS, "intent_ids": IDS}

INGRESS: dict[str, tuple[Statement, dict[str, Any]]] = {
    "find delivery": (deliveries_store._FIND_DELIVERY, DELIVERY),
}
PUBLISHER: dict[str, tuple[Statement, dict[str, Any]]] = {
    "find publication": (ledger._FIND_PUBLICATION, {**WORK, **IDENTITY}),
    "attempts": (ledger._ATTEMPTS, {**OURS, "publication_id": 7}),
    "claim status": (ledger._CLAIM_STATUS, ATTEMPT),
    "settle attempt": (ledger._SETTLE_ATTEMPT, {**ATTEMPT, **SETTLED}),
    "read publication": (ledger._PUBLICATION, {**OURS, "publication_id": 7}),
    "find intent": (store_fence._INTENT, {**OURS, "intent_id": 7}),
    "lock place": (store_fence._LOCK_CHANGE_REQUEST, PULL),
    "lock lease": (store_fence._LOCK_LEASE, {**WORK, "holder": "h", "epoch": 1}),
    "await lease": (store_fence._AWAIT_LEASE, WORK),
    "checkpoint version": (store_fence._CHECKPOINT_VERSION, {**WORK, "generation": 1}),
    "find answer of a hold": (holds._FIND_ANSWER, REQUEST),
}
WATCHDOG: dict[str, tuple[Statement, dict[str, Any]]] = {
    "lock key": (access._LOCK_KEY, KEY),
    "find key": (access._FIND_KEY, KEY),
    "end key": (access._END_KEY, {**KEY, "in_ms": 1}),
    "find answer of a key": (access._FIND_ANSWER, REQUEST),
    "deliveries by id": (timeline._DELIVERIES_BY_ID, {**OURS, "delivery_id": "d7", "limit": 1000}),
    "deliveries of": (timeline._DELIVERIES_OF, {**PULL, "keys": ["k7"], "limit": 1000}),
    "change request": (timeline._CHANGE_REQUEST, PULL),
    "by url": (
        timeline._BY_URL,
        {**OURS, "urls": [f"https://github.com/a/b/pull/{number}" for number in IDS]},
    ),
    "heads": (timeline._HEADS, {**PULL, "keys": None, "limit": 1000}),
    "intents": (work_store._INTENTS, {**PULL, "keys": ["k7"], "limit": 1000}),
    "dispatches": (work_store._DISPATCHES, {**OF_INTENTS, "limit": 1000}),
    "running leases": (work_store._LEASES, OF_INTENTS),
    "last delivery of each endpoint": (figures_store._ENDPOINT_LAST_DELIVERY_AGE, OURS),
    "deliveries by outcome": (figures_store._DELIVERIES_BY_OUTCOME, {"tenant": "globex"}),
    "flushes": (work_store._FLUSHES, OF_KEYS),
    "publication attempts": (work_store._ATTEMPTS, OF_KEYS),
    "ready": (work_store._READY, OF_INTENTS),
    "waiting": (work_store._WAITING, {**OURS, "intent_ids": [ROWS + each for each in IDS]}),
}
QUIET = """
    INSERT INTO deliveries (tenant, endpoint, delivery_id, forge, forge_instance, event,
        content_type, body, body_sha256, outcome, received_at)
    VALUES ('acme', 'quiet', 'd', 'github', 'github.com', 'ping', '', '', '', 'ignored',
            statement_timestamp() - interval '1 day'),
        ('globex', 'github', 'd', 'github', 'github.com', 'ping', '', '', '', 'ignored',
            statement_timestamp());
    INSERT INTO endpoints (tenant, name, forge, forge_instance, proof, routes, bot_ids,
        wanted_events, drafts)
    VALUES ('acme', 'quiet', 'github', 'github.com', 'signature', '[{}]', '{}', '{}', 'ignore'),
        ('globex', 'github', 'github', 'github.com', 'signature', '[{}]', '{}', '{}', 'ignore')
"""
"""An endpoint beside a busy one, and a tenant beside a busy one."""

STATEMENTS = INGRESS | PUBLISHER | WATCHDOG


@pytest.fixture(scope="module")
def connection(database_server: DatabaseServer) -> Iterator["psycopg.Connection[Any]"]:
    for owner_url in database_server.each_database():
        with psycopg.connect(owner_url, autocommit=True) as connection:
            flood(connection)
            connection.execute(QUIET)
            yield connection


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_reads_the_whole_table(
    connection: "psycopg.Connection[Any]", name: str
) -> None:
    statement, values = STATEMENTS[name]
    asked = max(len(value) if isinstance(value, list) else 1 for value in values.values())
    found = touched(connection, statement, values)
    assert 0 < found.rows <= ROWS_PER_ASKED_MAX * asked
    assert found.blocks <= BLOCKS_PER_ASKED_MAX * asked
