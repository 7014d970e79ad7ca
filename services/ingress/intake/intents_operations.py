"""Makes the intents that deliveries ask for, or finds whose they are already (I13)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.errors import Overloaded

from services.ingress.intake import intents_store as store
from services.ingress.intake.intents_store import IntentWrite, Occupant
from services.ingress.intake.items import Fresh, Verdict
from shared.database import Transaction

RIVAL_GONE_MAX = 3
"""How often an occupant that was met may be gone when looked for, before the caller must retry."""


@dataclass
class Work:
    """What became of one delivery's wishes: intents it made, and others' that it met."""

    made: list[int] = field(default_factory=list)
    met: list[Occupant] = field(default_factory=list)
    filled_queues: set[str] = field(default_factory=set)

    @property
    def intent_ids(self) -> tuple[int, ...]:
        """All of them, in order."""
        return tuple(sorted({*self.made, *(occupant.intent_id for occupant in self.met)}))

    @property
    def first(self) -> Occupant:
        """The oldest of others' intents."""
        return min(self.met, key=lambda occupant: occupant.intent_id)


@dataclass(frozen=True)
class _Wish:
    n: int
    intent: IntentWrite


async def make(
    tx: Transaction, fresh: Mapping[int, Fresh], verdicts: Mapping[int, Verdict]
) -> dict[int, Work]:
    """What became of each that asks for work, by its place in the list; new intents are ready."""
    wishes = [
        _Wish(n, intent)
        for n, verdict in verdicts.items()
        for intent in _intents(fresh[n], verdict)
    ]
    found: dict[int, Work] = {wish.n: Work() for wish in wishes}
    left = wishes
    for _ in range(RIVAL_GONE_MAX):
        left = await _insert(tx, left, found) if left else []
        left = await _meet(tx, left, found) if left else []
    if left:
        raise Overloaded
    tenants = {wish.n: wish.intent.change_request[0] for wish in wishes}
    if made := [(tenants[n], intent_id) for n in sorted(found) for intent_id in found[n].made]:
        await store.insert_ready(tx, made)
    return found


async def _insert(
    tx: Transaction, wishes: Sequence[_Wish], found: Mapping[int, Work]
) -> list[_Wish]:
    """Makes what nobody has; returns the rest."""
    rows = await store.insert_intents(tx, [wish.intent for wish in wishes])
    made = {(row.delivery_seq, row.key, row.action): row.intent_id for row in rows}
    left = []
    for wish in wishes:
        intent_id = made.get((wish.intent.delivery_seq, wish.intent.key, wish.intent.action))
        if intent_id is None:
            left.append(wish)
        else:
            found[wish.n].made.append(intent_id)
            found[wish.n].filled_queues.add(wish.intent.queue)
    return left


async def _meet(tx: Transaction, wishes: Sequence[_Wish], found: Mapping[int, Work]) -> list[_Wish]:
    """Finds whose it is, in a later statement than the one that lost; returns what is free."""
    occupants = await store.find_occupants(tx, [wish.intent for wish in wishes])
    met = {occupant.turn: occupant for occupant in occupants}
    for turn, wish in enumerate(wishes, start=1):
        if turn in met:
            found[wish.n].met.append(met[turn])
    return [wish for turn, wish in enumerate(wishes, start=1) if turn not in met]


def _intents(fresh: Fresh, verdict: Verdict) -> list[IntentWrite]:
    item, submission = fresh.item, fresh.item.submission
    route = submission.endpoint.routes[0]
    return [
        IntentWrite(
            change_request=item.change_request(target.number),
            queue=route.queue,
            key=target.key(item).canonical(),
            key_label=target.key(item).label(item.repo_name),
            action=route.action,
            generation=target.generation,
            head_sha=target.head_sha or "",
            delivery_seq=fresh.delivery_seq,
            content_type=submission.content_type,
            traceparent=submission.traceparent,
        )
        for target in verdict.targets
    ]
