"""What a case finds in the database afterwards."""

from typing import Any

from tests.services.ingress.webhooks.posting import Door


def bodies(door: Door, delivery_id: str) -> list[bytes]:
    """The raw bodies that were stored under an id."""
    return [body for body, *_ in _deliveries(door, delivery_id)]


def projection(door: Door, delivery_id: str) -> dict[str, Any]:
    """The normalised form of the one delivery of this id."""
    [(_, found)] = _deliveries(door, delivery_id)
    return dict(found)


def refusals(door: Door, delivery_id: str) -> list[tuple[Any, ...]]:
    """Reason, field and raw body of each delivery of this id that was refused."""
    return door.owner.execute(
        "SELECT reason, projection->>'field', body FROM fencepost.deliveries"
        " WHERE delivery_id = %s AND outcome = 'refused' ORDER BY delivery_seq",
        [delivery_id],
    ).fetchall()


def intents(door: Door) -> int:
    """How much work there is in all."""
    return door.written()["intents"]


def _deliveries(door: Door, delivery_id: str) -> list[tuple[Any, ...]]:
    return door.owner.execute(
        "SELECT body, projection FROM fencepost.deliveries"
        " WHERE delivery_id = %s ORDER BY delivery_seq",
        [delivery_id],
    ).fetchall()
