"""Takes the delivery ids of a list, or says what those who have them sent (I1, I3, I4)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fencepost.errors import Overloaded

from services.ingress.intake import markers_store
from services.ingress.intake.items import Fresh, Item
from services.ingress.intake.markers_store import DeliveryKey
from shared.database import Transaction

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

RIVAL_GONE_MAX = 3
"""How often a rival that was met may be gone when looked for, before the caller must come again."""


@dataclass(frozen=True)
class Marked:
    """Deliveries by their place in the list."""

    fresh: dict[int, Fresh]
    repeated: frozenset[int]
    conflicting: frozenset[int]


async def mark(tx: Transaction, items: Sequence[Item], ttl_seconds: int) -> Marked:
    """Of several items with one id the first takes it; numbers rise as the list goes on."""
    first: dict[DeliveryKey, int] = {}
    for n, item in enumerate(items):
        first.setdefault(_key(item), n)
    wanted = {key: items[n].body_sha256 for key, n in first.items()}
    taken, held = await _take(tx, wanted, ttl_seconds)
    free = [n for key, n in first.items() if key in taken]
    numbers = sorted(taken.values())
    fresh = {n: Fresh(items[n], number) for n, number in zip(free, numbers, strict=True)}
    others = [n for n in range(len(items)) if n not in fresh]
    bodies = {**held, **{key: wanted[key] for key in taken}}
    same = frozenset(n for n in others if bodies[_key(items[n])] == items[n].body_sha256)
    return Marked(fresh, same, frozenset(others) - same)


async def _take(
    tx: Transaction, wanted: dict[DeliveryKey, bytes], ttl_seconds: int
) -> tuple[dict[DeliveryKey, int], dict[DeliveryKey, bytes]]:
    """Numbers of the ids that were free, digests of those that were not."""
    return await claim(
        wanted,
        take=lambda left: markers_store.insert_markers(tx, left, ttl_seconds=ttl_seconds),
        find=lambda left: markers_store.find_markers(tx, left),
        make_room=lambda left: markers_store.delete_expired_markers(tx, left),
    )


async def claim(
    wanted: dict[K, V],
    *,
    take: Callable[[dict[K, V]], Awaitable[dict[K, T]]],
    find: Callable[[list[K]], Awaitable[dict[K, V]]],
    make_room: Callable[[list[K]], Awaitable[None]],
) -> tuple[dict[K, T], dict[K, V]]:
    """What was taken, and what stands where others were first; what has expired is replaced.

    Raises Overloaded when rivals come and go too often.
    """
    taken: dict[K, T] = {}
    held: dict[K, V] = {}
    left = wanted
    for _ in range(RIVAL_GONE_MAX):
        taken |= await take(left)
        left = {key: value for key, value in left.items() if key not in taken}
        if left:
            held |= await find(list(left))
            left = {key: value for key, value in left.items() if key not in held}
        if not left:
            return taken, held
        await make_room(list(left))
    raise Overloaded


def _key(item: Item) -> DeliveryKey:
    endpoint = item.submission.endpoint
    return endpoint.tenant, endpoint.name, item.submission.delivery_id
