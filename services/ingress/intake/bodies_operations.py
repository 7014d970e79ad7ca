"""Recognises a body that made work already and comes again under another delivery id (I12).

That is for doors whose proof says nothing of the id. A person's re-run is deliberate, and exempt.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from services.ingress.intake import bodies_store
from services.ingress.intake.bodies_store import BodyKey
from services.ingress.intake.items import Fresh, Item
from services.ingress.intake.markers_operations import claim
from services.ingress.rules import AskKind
from shared.database import Transaction


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Cuts a list where a body comes again: what becomes of the first must be known by then."""
    begin = 0
    seen: set[BodyKey] = set()
    for n, item in enumerate(items):
        key = _key(item)
        if key in seen:
            yield items[begin:n]
            begin, seen = n, set()
        if key is not None:
            seen.add(key)
    yield items[begin:]


async def first_deliveries(
    tx: Transaction, fresh: Mapping[int, Fresh], ttl_seconds: int
) -> dict[int, str]:
    """Ids of the deliveries that made work of the same bodies, by place in the list.

    Bodies that nobody has are taken, until it is known whether they make work.
    """
    keys = {n: key for n, each in fresh.items() if (key := _key(each.item)) is not None}
    if not keys:
        return {}
    _, held = await claim(
        {key: fresh[n].item.submission.delivery_id for n, key in keys.items()},
        take=lambda left: bodies_store.insert_bodies(tx, left, ttl_seconds=ttl_seconds),
        find=lambda left: bodies_store.find_bodies(tx, left),
        make_room=lambda left: bodies_store.delete_expired_bodies(tx, left),
    )
    return {n: held[key] for n, key in keys.items() if key in held}


async def let_go(tx: Transaction, workless: Iterable[Item]) -> None:
    """Frees the bodies of which no work was made."""
    if keys := [key for item in workless if (key := _key(item)) is not None]:
        await bodies_store.delete_bodies(tx, keys)


def _key(item: Item) -> BodyKey | None:
    submission, reading = item.submission, item.reading
    is_rerun = reading.asks is not None and reading.asks.kind is AskKind.RERUN
    if not submission.dedupes_by_body or reading.ignored is not None or is_rerun:
        return None
    endpoint = submission.endpoint
    return endpoint.tenant, endpoint.name, submission.event, item.body_sha256
