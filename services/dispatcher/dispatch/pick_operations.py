"""What a grant starts from: runnable intents in order, and the lease time of their queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.dispatcher.dispatch import ready_store
from services.dispatcher.dispatch.ready_store import ReadyRow
from shared.database import Transaction


@dataclass(frozen=True)
class Picked:
    """Intents taken off the ready ones, and by queue how long a lease of theirs holds."""

    rows: list[ReadyRow]
    leases_ms: Mapping[str, int]


async def pick(
    tx: Transaction, *, tenant: str, queues: Sequence[str], limit: int, lease_ms: int
) -> Picked:
    """By priority, then in the order of the queues, then of arrival; one for each key.

    `lease_ms` holds for queues that say nothing of it.
    """
    rows: list[ReadyRow] = []
    leases_ms: dict[str, int] = {}
    for band in await ready_store.bands(tx, tenant=tenant, queues=queues):
        room = limit - len(rows)
        if room == 0:
            break
        leases_ms[band.queue] = lease_ms if band.lease_ms is None else band.lease_ms
        rows += await ready_store.pick(tx, tenant=tenant, band=band, limit=room, beside=rows)
    return Picked(rows, leases_ms)
