"""What a statement touches follows from what it was asked, not from how much there is.

On tables that were never analysed, as on the day of a first flood.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from services.dispatcher.checkpoints import store as checkpoints
from services.dispatcher.dispatch import (
    fences_store,
    leases_store,
    merge_groups_store,
    outcomes_store,
    ready_store,
    sessions_store,
)
from services.dispatcher.housekeeping import heads_store
from services.dispatcher.housekeeping import store as housekeeping
from services.dispatcher.intents import store as intents
from services.dispatcher.queues import store as queues
from shared.database import Statement
from tests.database_server import DatabaseServer
from tests.flood import flood, touched

ASKED = 20
ROWS_MAX = 10 * ASKED
BLOCKS_MAX = 30 * ASKED

WAIT_FOR_PUBLICATIONS = """
    INSERT INTO waiting (intent_id, tenant, queue, priority, key, action, attempts, waits_on,
        publication_id, due_at)
    SELECT 9000000 + publication_id, tenant, 'reviews', 0, key, action, 0, 'publication',
        publication_id, clock_timestamp() + interval '1 hour'
    FROM publications WHERE publication_id <= 20
"""

IDS = list(range(1, ASKED + 1))
KEYS = [f"k{number}" for number in IDS]


def listed(value: Any) -> list[Any]:
    return [value] * ASKED


PLACES = {"tenant": "acme", "keys": KEYS, "actions": listed("bot")}
CLAIMED = {**PLACES, "epochs": listed(1), "holders": listed("h"), "intent_ids": IDS}
OF_GENERATION = {**PLACES, "generations": listed(1)}
ENDED = {**PLACES, "epochs": listed(1)}
TENANT = {"tenant": "acme"}

STATEMENTS: dict[str, tuple[Statement, dict[str, Any]]] = {
    "bands": (ready_store._BANDS, {**TENANT, "queues": ["reviews", "other"]}),
    "rules of queues": (queues._RULES, {**TENANT, "names": [f"q{number}" for number in IDS]}),
    "take leases": (
        leases_store._TAKE_LEASES,
        {
            **OF_GENERATION,
            "holder": "h",
            "session_id": None,
            "grant_id": "g",
            "epochs_seen": listed(1),
            "intent_ids": IDS,
            "queues": listed("reviews"),
            "priorities": listed(0),
            "attempts": listed(1),
            "leases_ms": listed(60_000),
        },
    ),
    "pick": (
        ready_store._PICK,
        {**PLACES, "queue": "reviews", "priority": 1, "limit": ASKED},
    ),
    "open intents": (ready_store._INTENTS, {**TENANT, "intent_ids": IDS}),
    "loads": (
        ready_store._LOADS,
        {**TENANT, "intent_ids": IDS, "payload_limit_bytes": 1, "total_limit_bytes": 1},
    ),
    "lock leases": (leases_store._LOCK_LEASES, PLACES),
    "lock merge groups": (
        merge_groups_store._LOCK_GROUPS,
        {
            **TENANT,
            "intent_ids": IDS,
            "forge_instances": listed("github.com"),
            "repo_ids": listed(1),
            "head_shas": [f"sha{number}" for number in IDS],
        },
    ),
    "lock held": (fences_store._LOCK_HELD, CLAIMED),
    "renew": (fences_store._RENEW, ENDED),
    "stored": (
        outcomes_store._STORED,
        {**CLAIMED, "epochs": listed(7), "holders": [f"s{number}" for number in IDS]},
    ),
    "runs": (outcomes_store._RUNS, OF_GENERATION),
    "failed": (outcomes_store._FAILED_DETERMINISTICALLY, {**TENANT, "intent_ids": IDS}),
    "in doubt": (outcomes_store._IN_DOUBT, OF_GENERATION),
    "record": (
        outcomes_store._RECORD,
        {
            **ENDED,
            "outcomes": listed("failed"),
            "digests": listed(b""),
            "dispositions": listed("transient"),
            "reasons": listed(""),
        },
    ),
    "end leases": (outcomes_store._END_LEASES, {**ENDED, "states": listed("free")}),
    "lock intents": (outcomes_store._LOCK_INTENTS, {**TENANT, "intent_ids": IDS}),
    "bury": (outcomes_store._BURY, {**TENANT, "intent_ids": IDS}),
    "settle intents": (
        outcomes_store._SETTLE_INTENTS,
        {
            **TENANT,
            "intent_ids": IDS,
            "statuses": listed("dead"),
            "attempts": listed(1),
            "settled_by": listed(None),
            "reasons": listed(""),
            "results": listed(None),
        },
    ),
    "release waiters": (outcomes_store._RELEASE_WAITERS, PLACES),
    "by session": (sessions_store._BY_SESSION, {**TENANT, "session_id": "s7"}),
    "by grant": (sessions_store._BY_GRANT, {**TENANT, "session_id": "s7", "grant_id": "g7"}),
    "look": (
        housekeeping._LOOK,
        {"tenants": ["acme", "acme", "theirs"], "queues": ["reviews", "other", "reviews"]},
    ),
    "shorten": (sessions_store._SHORTEN, {**PLACES, "session_id": "s7", "grace_ms": 1}),
    "move due": (housekeeping._MOVE_DUE, {"limit": 100}),
    "move unblocked": (housekeeping._MOVE_SETTLED, {"limit": 100}),
    "claim headless": (heads_store._CLAIM_HEADLESS, {"limit": ASKED, "claim_ms": 1}),
    "lock the change request of a head": (
        heads_store._LOCK_CHANGE_REQUEST,
        {**TENANT, "forge_instance": "github.com", "repo_id": 1, "number": 7},
    ),
    "name head": (
        heads_store._NAME_HEAD,
        {**TENANT, "intent_id": 7, "head_sha": "", "key": "", "key_label": "", "generation": 1},
    ),
    "end wait": (heads_store._END_WAIT, {**TENANT, "intent_id": 7, "due_at": "now"}),
    "stored flush": (
        checkpoints._STORED_FLUSH,
        {**TENANT, "key": "k7", "action": "bot", "flush_id": "f"},
    ),
    "view": (intents._VIEW, {**TENANT, "intent_id": 7}),
    "lock overdue": (housekeeping._LOCK_OVERDUE, {"limit": 100}),
}


@pytest.fixture(scope="module")
def connection(database_server: DatabaseServer) -> Iterator["psycopg.Connection[Any]"]:
    for owner_url in database_server.each_database():
        with psycopg.connect(owner_url, autocommit=True) as connection:
            flood(connection)
            connection.execute(WAIT_FOR_PUBLICATIONS)
            yield connection


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_reads_the_whole_table(
    connection: "psycopg.Connection[Any]", name: str
) -> None:
    found = touched(connection, *STATEMENTS[name])
    assert found.rows <= ROWS_MAX
    assert found.blocks <= BLOCKS_MAX
