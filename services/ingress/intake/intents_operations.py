"""Makes the intents that deliveries ask for, or finds whose they are already (I13)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from fencepost.errors import Overloaded

from services.ingress.endpoints import Route
from services.ingress.intake import intents_store as store
from services.ingress.intake.intents_store import IntentWrite, Occupant
from services.ingress.intake.items import Fresh, Target, Verdict
from services.ingress.rules import suffixes_of
from shared.database import Transaction

RIVAL_GONE_MAX = 3
"""How often an occupant that was met may be gone when looked for, before the caller must retry."""


@dataclass
class _Wish:
    """An intent that a delivery asks for: its own in the end, or the one that was there before."""

    n: int
    intent: IntentWrite
    intent_id: int | None = None
    occupant: Occupant | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing became of it yet."""
        return self.intent_id is None and self.occupant is None


@dataclass(frozen=True)
class Work:
    """What became of one delivery's wishes: intents it made, and others' that it met."""

    made: tuple[int, ...]
    met: tuple[Occupant, ...]
    filled_queues: frozenset[str]

    @property
    def intent_ids(self) -> tuple[int, ...]:
        """All of them, in order."""
        return tuple(sorted({*self.made, *(occupant.intent_id for occupant in self.met)}))

    @property
    def first(self) -> Occupant:
        """The oldest of others' intents."""
        return min(self.met, key=lambda occupant: occupant.intent_id)


async def make(
    tx: Transaction, fresh: Mapping[int, Fresh], verdicts: Mapping[int, Verdict]
) -> dict[int, Work]:
    """What became of each that asks for work, by its place in the list.

    New intents are ready to be granted, or wait for their heads.
    """
    wishes = [
        _Wish(n, intent) for n, each in fresh.items() for intent in _intents(each, verdicts[n])
    ]
    for _ in range(RIVAL_GONE_MAX):
        if left := [wish for wish in wishes if wish.is_open]:
            await _insert(tx, left)
        if left := [wish for wish in wishes if wish.is_open]:
            await _meet(tx, left)
    if any(wish.is_open for wish in wishes):
        raise Overloaded
    made = [wish for wish in wishes if wish.intent_id is not None]
    if headless := [wish for wish in made if wish.intent.head_sha is None]:
        store.insert_waiting(tx, [_placed(wish) for wish in headless])
    return {n: _work(list(own)) for n, own in groupby(wishes, key=attrgetter("n"))}


async def _insert(tx: Transaction, wishes: Sequence[_Wish]) -> None:
    """Makes what nobody has."""
    rows = await store.insert_intents(tx, [wish.intent for wish in wishes])
    made = {(row.delivery_seq, row.key, row.action): row.intent_id for row in rows}
    for wish in wishes:
        intent = wish.intent
        wish.intent_id = made.get((intent.delivery_seq, intent.key, intent.action))


async def _meet(tx: Transaction, wishes: Sequence[_Wish]) -> None:
    """Finds whose the others are, in a later statement than the one that lost."""
    met = await store.find_occupants(tx, [wish.intent for wish in wishes])
    for turn, wish in enumerate(wishes, start=1):
        wish.occupant = met.get(turn)


def _placed(wish: _Wish) -> tuple[str, int]:
    assert wish.intent_id is not None, "only what was made has a place"
    return wish.intent.change_request[0], wish.intent_id


def _work(own: Sequence[_Wish]) -> Work:
    made = {wish.intent_id: wish.intent.queue for wish in own if wish.intent_id is not None}
    return Work(
        made=tuple(made),
        met=tuple([wish.occupant for wish in own if wish.occupant is not None]),
        filled_queues=frozenset(made.values()),
    )


def _intents(fresh: Fresh, verdict: Verdict) -> list[IntentWrite]:
    """One for each target, action and command; of routes with one action the first takes (I13)."""
    if not verdict.targets:
        return []
    item, submission = fresh.item, fresh.item.submission
    taken: dict[str, tuple[Route, tuple[str, ...]]] = {}
    for route in submission.endpoint.routes_of(item.about.repo_id):
        suffixes = suffixes_of(
            item.reading.asks,
            delivery_id=submission.delivery_id,
            commands=route.commands,
            checks=route.checks,
        )
        if suffixes:
            taken.setdefault(route.action, (route, suffixes))
    return [
        _intent(fresh, target, route, suffix)
        for target in verdict.targets
        for route, suffixes in taken.values()
        for suffix in suffixes
    ]


def _intent(fresh: Fresh, target: Target, route: Route, suffix: str) -> IntentWrite:
    item, submission = fresh.item, fresh.item.submission
    key = target.key(item, suffix)
    return IntentWrite(
        change_request=item.change_request(target.number),
        queue=route.queue,
        key=key.canonical(),
        key_label=key.label(item.about.repo_name),
        action=route.action,
        generation=target.generation,
        head_sha=target.head_sha,
        suffix=suffix,
        delivery_seq=fresh.delivery_seq,
        content_type=submission.content_type,
        traceparent=submission.traceparent,
    )
