"""Lists stored deliveries for those who look what came in, what was ignored, and why."""

from dataclasses import dataclass

from fencepost.errors import FieldInvalid

from services.ingress import list_store
from services.ingress.deliveries_store import DeliveryRow
from services.ingress.list_store import DeliveryFilter
from services.ingress.pages_rules import page_position, page_token
from shared.database import Database


@dataclass(frozen=True)
class Page:
    """Deliveries, newest first; the token is empty on the last page."""

    deliveries: list[DeliveryRow]
    next_page_token: str


async def page(database: Database, wanted: DeliveryFilter, *, size: int, token: str) -> Page:
    """One page; raises FieldInvalid for a token that was never given out. Keeps X8."""
    after = page_position(token) if token else None
    if token and after is None:
        sentence = "must be the next_page_token of an answer, or empty"
        raise FieldInvalid(violations=[("page_token", sentence)])
    rows = await database.read(
        lambda tx: list_store.list_deliveries(tx, wanted, after=after, limit=size + 1)
    )
    shown = rows[:size]
    last = shown[-1] if len(rows) > size else None
    more = page_token(last.received_at, last.delivery_seq) if last else ""
    return Page(shown, more)
