"""Ends what a newer head or a closed change request makes unwanted, as its row's lock allows (I9).

Leases end before new intents are made, intents are settled after: that is the order of locks, and
work that this very list makes and makes unwanted is settled with the rest (X7).
"""

from collections.abc import Sequence

from services.ingress.intake import unwanted_store as store
from services.ingress.intake.places import Marks
from shared.database import Transaction


async def end_leases(tx: Transaction, unwanted: Sequence[Marks]) -> dict[int, int]:
    """Fences who works on it; returns the attempts of the intents whose leases ended."""
    if not unwanted:
        return {}
    running = await store.lock_running(tx, unwanted)
    if running:
        ended = await store.end_leases(tx, running)
        assert ended == len(running), "a locked lease went on without us"
    return {lease.intent_id: lease.attempts for lease in running}


async def settle(tx: Transaction, unwanted: Sequence[Marks], attempts: dict[int, int]) -> None:
    """Marks intents that are not finished as superseded or abandoned."""
    if unwanted:
        await store.settle_open(tx, unwanted, attempts)
