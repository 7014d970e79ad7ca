"""Statements on change requests and their heads, each over a list in the order of its keys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from services.ingress.intake.places import KeyParts, columns
from shared.database import Transaction, statement
from shared.schema.states import ChangeRequestState

Commit = tuple[str, str, int, str]
"""Tenant, forge instance, repository id and head."""


@dataclass(frozen=True)
class ChangeRequestRow:
    """What is recorded of a change request, its row locked."""

    tenant: str
    forge_instance: str
    repo_id: int
    number: int
    head_sha: str
    generation: int
    state: ChangeRequestState
    forge_updated_at: datetime | None
    abandoned_through: int

    @property
    def key(self) -> KeyParts:
        """Its identity."""
        return self.tenant, self.forge_instance, self.repo_id, self.number


# OFFSET 0: a plan can only go from each listed row to its place in the index.
_LOCK_CHANGE_REQUESTS = statement("""
    SELECT c.tenant, c.forge_instance, c.repo_id, c.number, c.head_sha, c.generation, c.state,
        c.forge_updated_at, c.abandoned_through
    FROM change_requests AS c
    JOIN (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(numbers)s::bigint[]
        ) AS listed (tenant, forge_instance, repo_id, number)
        OFFSET 0
    ) AS named USING (tenant, forge_instance, repo_id, number)
    ORDER BY c.tenant, c.forge_instance, c.repo_id, c.number
    FOR UPDATE OF c
""")


async def lock_change_requests(
    tx: Transaction, keys: Iterable[KeyParts]
) -> dict[KeyParts, ChangeRequestRow]:
    """Locks those that exist until the end of the transaction; one without a row is missing."""
    rows = await tx.all(_LOCK_CHANGE_REQUESTS, ChangeRequestRow, **columns(keys))
    return {row.key: row for row in rows}


@dataclass(frozen=True, kw_only=True)
class ChangeRequestWrite:
    """What is to be recorded of a change request."""

    key: KeyParts
    forge: str
    repo_name: str
    url: str
    base_ref: str
    head_sha: str
    generation: int
    state: ChangeRequestState
    forge_updated_at: datetime | None
    abandoned_through: int


@dataclass(frozen=True)
class _Key:
    tenant: str
    forge_instance: str
    repo_id: int
    number: int


_INSERT_CHANGE_REQUESTS = statement("""
    WITH made AS (
        INSERT INTO change_requests (tenant, forge_instance, repo_id, number, forge, repo_name, url,
            base_ref, head_sha, generation, superseded_through, abandoned_through, state,
            forge_updated_at)
        SELECT n.tenant, n.forge_instance, n.repo_id, n.number, n.forge, n.repo_name, n.url,
            n.base_ref, n.head_sha, n.generation, n.generation - 1, n.abandoned_through, n.state,
            n.forge_updated_at
        FROM unnest(
            %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(numbers)s::bigint[], %(forges)s::text[], %(repo_names)s::text[], %(urls)s::text[],
            %(base_refs)s::text[], %(head_shas)s::text[], %(generations)s::bigint[],
            %(abandoned_through)s::bigint[], %(states)s::text[],
            %(forge_updated_at)s::timestamptz[]
        ) AS n (tenant, forge_instance, repo_id, number, forge, repo_name, url, base_ref, head_sha,
            generation, abandoned_through, state, forge_updated_at)
        ORDER BY n.tenant, n.forge_instance, n.repo_id, n.number
        ON CONFLICT (tenant, forge_instance, repo_id, number) DO NOTHING
        RETURNING tenant, forge_instance, repo_id, number, generation, head_sha
    ), heads AS (
        INSERT INTO change_request_heads
            (tenant, forge_instance, repo_id, number, generation, head_sha)
        SELECT * FROM made
    )
    SELECT tenant, forge_instance, repo_id, number FROM made
""")


async def insert_change_requests(
    tx: Transaction, writes: Sequence[ChangeRequestWrite]
) -> set[KeyParts]:
    """Records those nobody told of, each with its head, and so locks them.

    Where a rival was first it is missing.
    """
    rows = await tx.all(
        _INSERT_CHANGE_REQUESTS, _Key, forges=[write.forge for write in writes], **_values(writes)
    )
    return {(row.tenant, row.forge_instance, row.repo_id, row.number) for row in rows}


_UPDATE_CHANGE_REQUESTS = statement("""
    UPDATE change_requests AS c
    SET repo_name = n.repo_name, url = n.url, base_ref = n.base_ref, head_sha = n.head_sha,
        generation = n.generation, superseded_through = n.generation - 1,
        abandoned_through = n.abandoned_through, state = n.state,
        forge_updated_at = n.forge_updated_at, updated_at = clock_timestamp()
    FROM (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(numbers)s::bigint[], %(repo_names)s::text[], %(urls)s::text[],
            %(base_refs)s::text[], %(head_shas)s::text[], %(generations)s::bigint[],
            %(abandoned_through)s::bigint[], %(states)s::text[],
            %(forge_updated_at)s::timestamptz[]
        ) AS listed (tenant, forge_instance, repo_id, number, repo_name, url, base_ref, head_sha,
            generation, abandoned_through, state, forge_updated_at)
        OFFSET 0
    ) AS n
    WHERE c.tenant = n.tenant AND c.forge_instance = n.forge_instance AND c.repo_id = n.repo_id
        AND c.number = n.number AND c.generation <= n.generation
        AND c.abandoned_through <= n.abandoned_through
""")


async def update_change_requests(tx: Transaction, writes: Sequence[ChangeRequestWrite]) -> int:
    """Moves locked rows on; returns how many. None whose counters would go back is written."""
    return await tx.execute(_UPDATE_CHANGE_REQUESTS, **_values(writes))


def _values(writes: Sequence[ChangeRequestWrite]) -> dict[str, list[object]]:
    return {
        **columns(write.key for write in writes),
        "repo_names": [write.repo_name for write in writes],
        "urls": [write.url for write in writes],
        "base_refs": [write.base_ref for write in writes],
        "head_shas": [write.head_sha for write in writes],
        "generations": [write.generation for write in writes],
        "abandoned_through": [write.abandoned_through for write in writes],
        "states": [write.state.value for write in writes],
        "forge_updated_at": [write.forge_updated_at for write in writes],
    }


@dataclass(frozen=True)
class Head:
    """A head of a change request, with the generation under which it became current."""

    change_request: KeyParts
    generation: int
    head_sha: str


_INSERT_HEADS = statement("""
    INSERT INTO change_request_heads (tenant, forge_instance, repo_id, number, generation, head_sha)
    SELECT *
    FROM unnest(
        %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
        %(numbers)s::bigint[], %(generations)s::bigint[], %(head_shas)s::text[]
    ) AS n (tenant, forge_instance, repo_id, number, generation, head_sha)
""")


def insert_heads(tx: Transaction, heads: Sequence[Head]) -> None:
    """Records which heads became current; the change requests' rows are locked."""
    tx.later(
        _INSERT_HEADS,
        **columns(head.change_request for head in heads),
        generations=[head.generation for head in heads],
        head_shas=[head.head_sha for head in heads],
    )


@dataclass(frozen=True)
class _Listed:
    listed_number: int


_FIND_KNOWN_HEADS = statement("""
    SELECT n.listed_number
    FROM unnest(
        %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
        %(numbers)s::bigint[], %(head_shas)s::text[]
    ) WITH ORDINALITY AS n (tenant, forge_instance, repo_id, number, head_sha, listed_number)
    WHERE EXISTS (
        SELECT FROM change_request_heads AS h
        WHERE h.tenant = n.tenant AND h.forge_instance = n.forge_instance
            AND h.repo_id = n.repo_id AND h.number = n.number AND h.head_sha = n.head_sha
        OFFSET 0
    )
""")


async def find_known_heads(
    tx: Transaction, heads: Sequence[tuple[KeyParts, str]]
) -> set[tuple[KeyParts, str]]:
    """Those of these heads that were current once."""
    rows = await tx.all(
        _FIND_KNOWN_HEADS,
        _Listed,
        **columns(key for key, _ in heads),
        head_shas=[head_sha for _, head_sha in heads],
    )
    return {heads[row.listed_number - 1] for row in rows}


_FIND_OPEN_AT = statement("""
    SELECT DISTINCT c.tenant, c.forge_instance, c.repo_id, c.number
    FROM (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(head_shas)s::text[]
        ) AS listed (tenant, forge_instance, repo_id, head_sha)
        OFFSET 0
    ) AS n
    JOIN change_requests AS c USING (tenant, forge_instance, repo_id, head_sha)
    WHERE c.state = 'open'
""")


async def find_open_at(tx: Transaction, commits: Sequence[Commit]) -> set[KeyParts]:
    """Open change requests whose current head is one of these commits; none is locked yet."""
    rows = await tx.all(
        _FIND_OPEN_AT,
        _Key,
        tenants=[tenant for tenant, _, _, _ in commits],
        forge_instances=[instance for _, instance, _, _ in commits],
        repo_ids=[repo_id for _, _, repo_id, _ in commits],
        head_shas=[head_sha for _, _, _, head_sha in commits],
    )
    return {(row.tenant, row.forge_instance, row.repo_id, row.number) for row in rows}
