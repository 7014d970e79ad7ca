"""What the doors hand to intake, and what they get back."""

from dataclasses import dataclass
from enum import StrEnum

from fencepost.errors import Refusal

from services.ingress.endpoints import Endpoint
from shared.schema.states import DeliveryOutcome


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One authentic delivery, exactly as its source sent it.

    `dedupes_by_body` says that nothing proves its id: the same body under another one is the same
    delivery (I12).
    """

    endpoint: Endpoint
    delivery_id: str
    event: str
    content_type: str
    body: bytes
    traceparent: str
    dedupes_by_body: bool = False


class Match(StrEnum):
    """What a duplicate was recognised by."""

    NONE = "none"
    DELIVERY_ID = "delivery-id"
    BODY = "body"
    KEY = "key"


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A delivery that was taken in, or was before: `first_delivery_id` and its intents.

    `reason` says why no work was made; it is empty when work exists.
    """

    outcome: DeliveryOutcome
    matched: Match
    first_delivery_id: str
    intent_ids: tuple[int, ...]
    reason: str


SubmissionOutcome = Taken | Refusal
"""A refused item wrote nothing; its neighbours in the list are not touched by it."""
