"""What the HTTP door must know of a forge before it may believe a request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """How a webhook is answered; each forge's table gives it a status (I8)."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    MALFORMED = "malformed"
    UNAUTHENTIC = "unauthentic"
    CONFLICT = "conflict"
    TOO_LARGE = "too-large"
    AWAY = "away"


@dataclass(frozen=True, kw_only=True)
class Forge:
    """Headers, in lower case, the signature check over all values of its header, and the table."""

    signature_header: str
    delivery_header: str
    event_header: str
    is_authentic: Callable[[Sequence[str], bytes, Sequence[bytes]], bool]
    statuses: Mapping[Answer, int]
