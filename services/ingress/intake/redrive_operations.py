"""Dead work whose delivery comes again is tried again: one new intent, however often (I14)."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.ingress.intake import intents_store
from services.ingress.intake import redrive_store as store
from services.ingress.intake.redrive_store import Again, TenantIntent
from shared.database import Transaction
from shared.schema.states import IntentStatus


@dataclass(frozen=True)
class Redriven:
    """The intents that stand for these by now, and the queues that have new work."""

    latest: dict[int, int]
    filled_queues: frozenset[str]

    def of(self, intent_ids: Sequence[int]) -> tuple[int, ...]:
        """The same work by its present intents; one that is no longer kept stands for itself."""
        return tuple(sorted({self.latest.get(intent_id, intent_id) for intent_id in intent_ids}))


async def redrive(tx: Transaction, intents: Sequence[TenantIntent]) -> Redriven:
    """Gives each dead one a successor, unless a rival did so first."""
    if not intents:
        return Redriven({}, frozenset())
    found = await store.find_latest(tx, intents)
    dead = [(each.tenant, each.intent_id) for each in found if each.status is IntentStatus.DEAD]
    made = await _try_again(tx, sorted(set(dead))) if dead else []
    if dead:
        found = await store.find_latest(tx, intents)
    return Redriven(
        {each.origin: each.intent_id for each in found}, frozenset(each.queue for each in made)
    )


async def _try_again(tx: Transaction, dead: Sequence[TenantIntent]) -> list[Again]:
    locked = await store.lock_dead(tx, dead)
    made = await store.insert_again(tx, locked) if locked else []
    if not made:
        return []
    redriven = await store.mark_redriven(tx, made)
    assert redriven == len(made), "a locked dead intent went on without us"
    if ready := [(each.tenant, each.intent_id) for each in made if each.has_head]:
        intents_store.insert_ready(tx, ready)
    if headless := [(each.tenant, each.intent_id) for each in made if not each.has_head]:
        intents_store.insert_waiting(tx, headless)
    return made
