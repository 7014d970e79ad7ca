"""Positions in a listing of deliveries, as text that callers hand back."""

import base64
import binascii
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64_MAX = 2**63 - 1


def page_token(received_at: datetime, delivery_seq: int) -> str:
    """Where the next page begins: after this delivery, opaque to callers."""
    position = f"{(received_at - _EPOCH) // _MICROSECOND} {delivery_seq}"
    return base64.urlsafe_b64encode(position.encode()).decode()


def page_position(token: str) -> tuple[datetime, int] | None:
    """The last delivery before the page; None for a token that was never given out."""
    try:
        position = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
        microseconds, delivery_seq = (int(part) for part in position.decode("ascii").split(" "))
        received_at = _EPOCH + microseconds * _MICROSECOND
    except (ValueError, binascii.Error, OverflowError):
        return None
    # int() also reads what is never written: "1_0", "+1", "01".
    given_out = token == page_token(received_at, delivery_seq)
    fits = received_at >= _EPOCH and 0 < delivery_seq <= _INT64_MAX
    return (received_at, delivery_seq) if given_out and fits else None
