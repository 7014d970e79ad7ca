"""Tables as on the day of a first flood: full of one tenant's rows, and never analysed.

What a statement touches there must follow from what it was asked, not from how much there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from shared.database import Statement
from shared.database.connections import PINNED_PLANS
from shared.schema.tables.base import SCHEMA, metadata

ROWS = 20_000
TENANT = "acme"

FILL = (
    """
    INSERT INTO queues (tenant, name, retries_max, retry_delays_ms, lease_ms, paused_at)
    SELECT 'acme', 'q' || g, 1, '{1}', 60000, clock_timestamp()
    FROM generate_series(1, {rows}) AS g
    """,
    """
    INSERT INTO api_keys (key_id, tenant, label, scopes, secret_sha256, created_by, rotated_from)
    SELECT 'key' || g, 'acme', 'worker', '{work}', sha256(''), 'tests', 'old' || g
    FROM generate_series(1, {rows}) AS g
    """,
    """
    INSERT INTO request_ids (tenant, method, request_id, digest, response)
    SELECT 'acme', 'm', 'r' || g, '', '' FROM generate_series(1, {rows}) AS g
    """,
    """
    INSERT INTO delivery_markers (tenant, endpoint, delivery_id, body_sha256, expires_at)
    SELECT 'acme', 'github', 'd' || g, '', clock_timestamp() + interval '1 hour'
    FROM generate_series(1, {rows}) AS g
    """,
    """
    INSERT INTO change_requests (tenant, forge_instance, repo_id, number, forge, repo_name, url,
        head_sha, generation, state)
    SELECT 'acme', 'github.com', 1, g, 'github', 'a/b', 'https://github.com/a/b/pull/' || g,
        'h', 1, 'open'
    FROM generate_series(1, {rows}) AS g
    """,
    """
    INSERT INTO change_request_heads (tenant, forge_instance, repo_id, number, generation, head_sha)
    SELECT tenant, forge_instance, repo_id, number, generation, head_sha FROM change_requests
    """,
    """
    INSERT INTO merge_groups (tenant, forge_instance, repo_id, head_sha, numbers, expires_at)
    SELECT 'acme', 'github.com', 1, 'sha' || g, '{7}', clock_timestamp() + interval '1 hour'
    FROM generate_series(1, {rows}) AS g
    """,
    """
    INSERT INTO deliveries (tenant, endpoint, delivery_id, forge, forge_instance, event,
        content_type, body, body_sha256, outcome, key, repo_id, number)
    SELECT tenant, 'github', 'd' || number, forge, forge_instance, 'pull_request', '', '', '',
        'accepted', 'k' || number, repo_id, number
    FROM change_requests
    """,
    """
    INSERT INTO intents (tenant, queue, key, key_label, action, generation, forge_instance, repo_id,
        number, head_sha, delivery_seq, content_type)
    SELECT tenant, 'reviews', key, '', 'bot', 1, forge_instance, repo_id, number, 'h',
        delivery_seq, ''
    FROM deliveries
    """,
    """
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action)
    SELECT queue, intent_id % 3, tenant, intent_id, key, action FROM intents
    WHERE intent_id < {rows}
    """,
    """
    INSERT INTO waiting (intent_id, tenant, queue, priority, key, action, attempts, waits_on,
        due_at)
    SELECT {rows} + intent_id, tenant, queue, 0, key, action, 0, 'lease',
        clock_timestamp() + interval '1 hour' FROM intents
    """,
    """
    INSERT INTO sessions (session_id, tenant, key_id, queues, replica, state, ended_at)
    SELECT 's' || g, 'acme', 'k', '{reviews}', 'r', CASE WHEN g < 10 THEN 'open' ELSE 'ended' END,
        CASE WHEN g < 10 THEN NULL ELSE clock_timestamp() END
    FROM generate_series(0, {rows}) AS g
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
    SELECT tenant, key, action, 7, intent_id, 1, 's' || intent_id % 1000, 1, clock_timestamp(),
        'completed', ''
    FROM intents
    """,
    """
    INSERT INTO runs (tenant, key, action, generation, intent_id, epoch, version, flush_id, state,
        state_schema_version, analysis_status)
    SELECT tenant, key, action, 1, intent_id, 1, 1, 'f', '', 1, 'running' FROM intents
    """,
    """
    INSERT INTO flushes (tenant, run_id, flush_id, request_sha256, version, epoch, state_bytes,
        span_count, final)
    SELECT tenant, run_id, flush_id, '', version, epoch, 0, 0, final FROM runs
    """,
    """
    INSERT INTO publications (tenant, key, key_label, action, generation, name, kind, target,
        ordinal, intent_id)
    SELECT tenant, key, '', action, 1, 'r', 'review', 't', 0, intent_id FROM intents
    """,
    """
    INSERT INTO publication_attempts (tenant, publication_id, attempt, status, holder, epoch,
        intent_id, claim_token, checkpoint_version, digest, request, evidence)
    SELECT tenant, publication_id, 1, 'running', 'h', 1, intent_id, 'c', 1, sha256(''), '', ''
    FROM publications
    """,
)


@dataclass(frozen=True)
class Touched:
    """Rows that the scans of a plan read, those thrown away included, and blocks looked at."""

    rows: float
    blocks: int


def flood(connection: Connection[Any]) -> None:
    """Fills the tables; from here on the connection plans as a service's does."""
    connection.execute(f"SET search_path = {SCHEMA}")
    for name, value in PINNED_PLANS.items():
        connection.execute(f"SET {name} = {value}")
    for table in metadata.sorted_tables:
        connection.execute(
            sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(
                sql.Identifier(table.name)
            )
        )
    for fill in FILL:
        connection.execute(fill.replace("{rows}", str(ROWS)))


def touched(
    connection: Connection[Any], statement: Statement, values: Mapping[str, Any]
) -> Touched:
    """Runs the statement in a transaction that is rolled back; says what it touched."""
    connection.execute("BEGIN")
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.text}"
    [[plans]] = connection.execute(explain, values).fetchall()
    connection.execute("ROLLBACK")
    plan = plans[0]["Plan"]
    return Touched(rows=_rows(plan), blocks=plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _rows(plan: dict[str, Any]) -> float:
    own = 0.0
    if "Relation Name" in plan and "Scan" in plan["Node Type"]:
        removed = plan.get("Rows Removed by Filter", 0) + plan.get(
            "Rows Removed by Index Recheck", 0
        )
        own = (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    return own + sum(_rows(inner) for inner in plan.get("Plans", []))
