"""What the HTTP door must know of a forge before it may believe a request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from starlette.datastructures import Headers


class Answer(StrEnum):
    """How a webhook is answered; each forge's table gives it a status (I8)."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    MALFORMED = "malformed"
    UNAUTHENTIC = "unauthentic"
    CONFLICT = "conflict"
    TOO_LARGE = "too-large"
    TOO_SLOW = "too-slow"
    AWAY = "away"
    FAULT = "fault"


TELLING_STATUSES: Mapping[Answer, int] = MappingProxyType(
    {
        Answer.ACCEPTED: 202,
        Answer.DUPLICATE: 200,
        Answer.IGNORED: 200,
        Answer.MALFORMED: 400,
        Answer.UNAUTHENTIC: 401,
        Answer.CONFLICT: 409,
        Answer.TOO_LARGE: 413,
        Answer.TOO_SLOW: 408,
        Answer.AWAY: 503,
        Answer.FAULT: 500,
    }
)
"""For forges that only show the status to people and go on sending whatever it is."""


class Check(Protocol):
    """Judges one request while its body passes by; it never raises."""

    @property
    def signed_at_s(self) -> int | None:
        """When it was signed, in seconds since 1970; None where the proof holds no time."""

    def update(self, chunk: bytes) -> None:
        """Takes the next bytes of the body."""

    def passed(self) -> bool:
        """Whether who knows a live secret sent exactly these bytes, in constant time."""


@dataclass(frozen=True, kw_only=True)
class Forge:
    """Headers, in lower case, the one trusted proof of who sent it (I5), and the table.

    `proof` tells a sender in a sentence what would have been believed; `event_named` makes the
    event's name of its header. `reads_to_end` says that a body over the limit is read to its end
    all the same, to tell whether it is authentic: its sender must not see that it is refused. Where
    the forge need not give its deliveries an id, by not `ids_itself`, the body's digest is one.
    `proves_id` says that the proof covers the id; without `proves_body` the proof needs no body, so
    it is judged before that is read.
    """

    proof: str
    delivery_header: str
    event_header: str
    check: Callable[[Headers, Sequence[bytes]], Check]
    statuses: Mapping[Answer, int]
    event_named: Callable[[str], str] = str
    reads_to_end: bool = False
    ids_itself: bool = True
    proves_id: bool = False
    proves_body: bool = True
