"""Statements on merge groups, and on the work that is done for those that are gone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.ingress.intake.places import columns
from services.ingress.intake.unwanted_store import Open, Running
from shared.database import Transaction, statement

Commit = tuple[str, str, int, str]
"""Tenant, forge instance, repository id and head of a merge group."""


@dataclass(frozen=True)
class Group:
    """A merge group with the change requests that its work is for."""

    commit: Commit
    numbers: tuple[int, ...]
    is_gone: bool


@dataclass(frozen=True)
class _Row:
    tenant: str
    forge_instance: str
    repo_id: int
    head_sha: str
    numbers: tuple[int, ...]
    is_gone: bool


_MARK = statement("""
    INSERT INTO merge_groups (tenant, forge_instance, repo_id, head_sha, numbers, gone_at,
        expires_at)
    SELECT n.tenant, n.forge_instance, n.repo_id, n.head_sha,
        string_to_array(n.numbers, ' ')::bigint[], CASE WHEN n.is_gone THEN clock_timestamp() END,
        clock_timestamp() + %(ttl_seconds)s * interval '1 second'
    FROM unnest(
        %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
        %(head_shas)s::text[], %(numbers)s::text[], %(gone)s::bool[]
    ) WITH ORDINALITY AS n (tenant, forge_instance, repo_id, head_sha, numbers, is_gone, turn)
    ORDER BY n.turn
    ON CONFLICT (tenant, forge_instance, repo_id, head_sha) DO UPDATE
    SET numbers = ARRAY(
            SELECT DISTINCT each FROM unnest(merge_groups.numbers || excluded.numbers) AS each
        ),
        gone_at = coalesce(merge_groups.gone_at, excluded.gone_at),
        expires_at = excluded.expires_at
    RETURNING tenant, forge_instance, repo_id, head_sha, numbers, gone_at IS NOT NULL AS is_gone
""")


async def mark(tx: Transaction, groups: Sequence[Group], ttl_seconds: int) -> dict[Commit, Group]:
    """Locks groups, in the order given, and adds what is said to what is known of them.

    Each is given once. One that is gone stays so, for so long as its deliveries count as seen.
    """
    rows = await tx.all(
        _MARK,
        _Row,
        tenants=[each.commit[0] for each in groups],
        forge_instances=[each.commit[1] for each in groups],
        repo_ids=[each.commit[2] for each in groups],
        head_shas=[each.commit[3] for each in groups],
        numbers=[" ".join(map(str, each.numbers)) for each in groups],
        gone=[each.is_gone for each in groups],
        ttl_seconds=ttl_seconds,
    )
    found = [
        Group(
            (row.tenant, row.forge_instance, row.repo_id, row.head_sha),
            tuple(sorted(row.numbers)),
            row.is_gone,
        )
        for row in rows
    ]
    return {group.commit: group for group in found}


# OFFSET 0: a plan can only go from each listed change request to its intents, and on from each.
_LOCK_RUNNING = statement("""
    SELECT l.tenant, l.key, l.action, l.epoch, l.intent_id, l.attempts, false AS is_superseded
    FROM (
        SELECT i.tenant, held.key, held.action, i.intent_id, 'running' AS state
        FROM (
            SELECT *
            FROM unnest(
                %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
                %(numbers)s::bigint[], %(head_shas)s::text[]
            ) AS listed (tenant, forge_instance, repo_id, number, head_sha)
            OFFSET 0
        ) AS n
        JOIN intents AS i USING (tenant, forge_instance, repo_id, number),
        LATERAL (
            SELECT key, action FROM leases
            WHERE leases.intent_id = i.intent_id AND leases.tenant = i.tenant
                AND leases.state = 'running'
            OFFSET 0
        ) AS held
        WHERE i.status = 'open' AND i.head_sha = n.head_sha AND i.suffix = 'merge-group'
        OFFSET 0
    ) AS found
    JOIN leases AS l USING (tenant, key, action, intent_id, state)
    ORDER BY l.tenant, l.key, l.action
    FOR UPDATE OF l
""")


async def lock_running(tx: Transaction, gone: Sequence[Group]) -> list[Running]:
    """Locks the leases of work for these groups, in the order of their keys."""
    return await tx.all(_LOCK_RUNNING, Running, **_places(gone))


_LOCK_OPEN = statement("""
    SELECT i.tenant, i.intent_id, false AS is_superseded
    FROM (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(numbers)s::bigint[], %(head_shas)s::text[]
        ) AS listed (tenant, forge_instance, repo_id, number, head_sha)
        OFFSET 0
    ) AS n
    JOIN intents AS i USING (tenant, forge_instance, repo_id, number)
    WHERE i.status = 'open' AND i.head_sha = n.head_sha AND i.suffix = 'merge-group'
    ORDER BY i.intent_id
    FOR UPDATE OF i
""")


async def lock_open(tx: Transaction, gone: Sequence[Group]) -> list[Open]:
    """Locks the intents of work for these groups that is not finished, in order."""
    return await tx.all(_LOCK_OPEN, Open, **_places(gone))


def _places(groups: Sequence[Group]) -> dict[str, list[object]]:
    listed = list(_members(groups))
    return {
        **columns((*commit[:3], number) for commit, number in listed),
        "head_shas": [commit[3] for commit, _ in listed],
    }


def _members(groups: Sequence[Group]) -> Iterator[tuple[Commit, int]]:
    for group in groups:
        for number in group.numbers:
            yield group.commit, number


_PURGE = statement("""
    WITH expired AS (
        SELECT tenant, forge_instance, repo_id, head_sha
        FROM merge_groups
        WHERE expires_at <= statement_timestamp()
        ORDER BY expires_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM merge_groups AS m USING expired AS e
    WHERE m.tenant = e.tenant AND m.forge_instance = e.forge_instance AND m.repo_id = e.repo_id
        AND m.head_sha = e.head_sha
""")


async def purge(tx: Transaction, *, limit: int) -> int:
    """Forgets groups whose time is over; returns how many."""
    return await tx.execute(_PURGE, limit=limit)
