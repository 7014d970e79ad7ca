"""Which refused deliveries were recorded lately: the same one again is not recorded again."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from time import monotonic

from fencepost.errors import FieldInvalid, Refusal

from services.ingress.submissions import Submission

KEPT_APART_S = 3600.0
KEPT_MAX = 10_000

Key = tuple[str, str, str, bytes | str]


class KeptRefusals:
    """What this process recorded within the last hour; the oldest of too many is forgotten.

    The sender's secret does not cover the delivery id of every forge, so who replays a body is
    known by the body, whatever id it comes under.
    """

    def __init__(self, *, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        self._kept_s: OrderedDict[Key, float] = OrderedDict()

    def has(self, submission: Submission, refusal: Refusal) -> bool:
        """Whether the same body was recorded lately, refused for the same."""
        kept_s = self._kept_s.get(_key(submission, refusal))
        return kept_s is not None and self._clock_s() - kept_s < KEPT_APART_S

    def add(self, submission: Submission, refusal: Refusal) -> None:
        """It is recorded now."""
        key = _key(submission, refusal)
        self._kept_s[key] = self._clock_s()
        self._kept_s.move_to_end(key)
        if len(self._kept_s) > KEPT_MAX:
            self._kept_s.popitem(last=False)


def _key(submission: Submission, refusal: Refusal) -> Key:
    endpoint, body = submission.endpoint, submission.body
    # A body over the limit is not here to be known by.
    known_by = sha256(body).digest() if body else submission.delivery_id
    why = refusal.message if isinstance(refusal, FieldInvalid) else refusal.reason
    return endpoint.tenant, endpoint.name, why, known_by
