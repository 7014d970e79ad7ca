"""What a queue is: plain values that every room of the dispatcher may know."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A queue as its owner declares it; the last of the delays repeats, or doubles up to the cap.

    Each delay is shortened by a random part of at most `retry_jitter_percent` of it.
    """

    name: str
    retries_max: int
    retry_delays_ms: Sequence[int]
    retry_cap_ms: int | None
    retry_jitter_percent: int
    lease_ms: int
