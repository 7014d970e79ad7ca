"""The statement that keeps a merge group from ending while its work is granted."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.dispatcher.dispatch.ready_store import IntentRow
from shared.database import Transaction, statement


@dataclass(frozen=True)
class _Known:
    intent_id: int
    is_gone: bool


_LOCK_GROUPS = statement("""
    SELECT n.intent_id, m.gone_at IS NOT NULL AS is_gone
    FROM merge_groups AS m
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(
            %(intent_ids)s::bigint[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(head_shas)s::text[]
        ) AS listed (intent_id, forge_instance, repo_id, head_sha)
        OFFSET 0
    ) AS n USING (tenant, forge_instance, repo_id, head_sha)
    ORDER BY m.forge_instance, m.repo_id, m.head_sha
    FOR SHARE OF m
""")


async def lock_groups(tx: Transaction, *, tenant: str, intents: Sequence[IntentRow]) -> set[int]:
    """Locks the merge groups of these intents against their end until commit, in order.

    Returns those whose group is gone already.
    """
    if not intents:
        return set()
    rows = await tx.all(
        _LOCK_GROUPS,
        _Known,
        tenant=tenant,
        intent_ids=[intent.intent_id for intent in intents],
        forge_instances=[intent.forge_instance for intent in intents],
        repo_ids=[intent.repo_id for intent in intents],
        head_shas=[intent.head_sha for intent in intents],
    )
    return {row.intent_id for row in rows if row.is_gone}
