"""What a statement touches follows from what it was asked, not from how much there is.

On tables that were never analysed, as on the day of a first flood.
"""

from typing import Any

from services.dispatcher.dispatch import (
    fences_store,
    leases_store,
    outcomes_store,
    ready_store,
    sessions_store,
)
from services.dispatcher.housekeeping import store as housekeeping
from shared.database import Statement
from shared.database.connections import PINNED_PLANS
from tests.services.dispatcher.desk import Desk

ROWS = 20_000
ASKED = 20
TOUCHED_MAX = 10 * ASKED

FILL = (
    """
    INSERT INTO intents (tenant, queue, key, key_label, action, generation, payload, content_type)
    SELECT 'acme', 'reviews', 'k' || g, '', 'bot', 1, '', '' FROM generate_series(1, {rows}) AS g
    """,
    """
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action)
    SELECT queue, intent_id % 3, tenant, intent_id, key, action FROM intents
    """,
    """
    INSERT INTO waiting (intent_id, tenant, queue, priority, key, action, attempts, waits_on,
        due_at)
    SELECT {rows} + intent_id, tenant, queue, 0, key, action, 0, 'lease',
        clock_timestamp() + interval '1 hour' FROM intents
    """,
    """
    INSERT INTO leases (tenant, key, action, generation, state, epoch, holder, session_id,
        intent_id, queue, priority, attempts, grant_id, lease_ms, granted_at, renewed_at,
        claimable_at)
    SELECT tenant, key, action, 1, 'running', 1, 'h', 's' || intent_id % 1000, intent_id, queue,
        0, 1, 'g' || intent_id % 1000, 1, clock_timestamp(), clock_timestamp(),
        clock_timestamp() + interval '1 hour' FROM intents
    """,
    """
    INSERT INTO dispatches (tenant, key, action, epoch, intent_id, generation, holder, attempt,
        granted_at, outcome, outcome_sha256)
    SELECT tenant, key, action, 7, intent_id, 1, 'h', 1, clock_timestamp(), 'completed', ''
    FROM intents
    """,
    """
    INSERT INTO runs (tenant, key, action, generation, intent_id, epoch, version, flush_id, state,
        state_schema_version, analysis_status)
    SELECT tenant, key, action, 1, intent_id, 1, 1, 'f', '', 1, 'running' FROM intents
    """,
    """
    INSERT INTO publications (tenant, key, key_label, action, generation, name, kind, target,
        ordinal, intent_id)
    SELECT tenant, key, '', action, 1, 'r', 'review', 't', 0, intent_id FROM intents
    """,
    """
    INSERT INTO publication_attempts (tenant, publication_id, attempt, status, holder, epoch,
        intent_id, claim_token, checkpoint_version, digest, request, evidence)
    SELECT tenant, publication_id, 1, 'running', 'h', 1, intent_id, '', 1, sha256(''), '', ''
    FROM publications
    """,
    """
    INSERT INTO waiting (intent_id, tenant, queue, priority, key, action, attempts, waits_on,
        publication_id, due_at)
    SELECT 9000000 + publication_id, tenant, 'reviews', 0, key, action, 0, 'publication',
        publication_id, clock_timestamp() + interval '1 hour'
    FROM publications WHERE publication_id <= 20
    """,
)

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
    "lock held": (fences_store._LOCK_HELD, CLAIMED),
    "renew": (fences_store._RENEW, ENDED),
    "stored": (outcomes_store._STORED, {**CLAIMED, "epochs": listed(7)}),
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
    "lock a session's": (sessions_store._LOCK_HELD, {**TENANT, "session_id": "s7"}),
    "shorten": (sessions_store._SHORTEN, {**TENANT, "session_id": "s7", "grace_ms": 1}),
    "move due": (housekeeping._MOVE_DUE, {"limit": 100}),
    "move unblocked": (housekeeping._MOVE_SETTLED, {"limit": 100}),
    "lock overdue": (housekeeping._LOCK_OVERDUE, {"limit": 100}),
}


def touched(plan: dict[str, Any]) -> float:
    """Rows that the scans of a plan read, those that they threw away included."""
    own = 0.0
    if "Relation Name" in plan and "Scan" in plan["Node Type"]:
        removed = plan.get("Rows Removed by Filter", 0) + plan.get(
            "Rows Removed by Index Recheck", 0
        )
        own = (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    return own + sum(touched(inner) for inner in plan.get("Plans", []))


async def test_no_statement_reads_the_whole_table(desk: Desk) -> None:
    connection = desk.rows.connection
    await connection.execute("SET search_path = fencepost")
    for name, value in PINNED_PLANS.items():
        await connection.execute(f"SET {name} = {value}")
    for table in ("intents", "ready", "waiting", "leases", "dispatches", "runs", "publications"):
        await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    for fill in FILL:
        await connection.execute(fill.format(rows=ROWS))
    most = {}
    for name, (statement, values) in STATEMENTS.items():
        await connection.execute("BEGIN")
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}"
        [[plans]] = await (await connection.execute(explain, values)).fetchall()
        most[name] = touched(plans[0]["Plan"])
        await connection.execute("ROLLBACK")
    assert {name: rows for name, rows in most.items() if rows > TOUCHED_MAX} == {}
