"""What a claim may do, decided from what the ledger has; no I/O and no clock."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.schema.states import AttemptStatus

SHADOW_SUFFIX = ":shadow"


@dataclass(frozen=True)
class Send:
    """Nothing stands in the way: this is the attempt to make."""

    attempt: int


@dataclass(frozen=True)
class AlreadyDone:
    """An attempt succeeded: its result is the answer."""

    attempt: int


@dataclass(frozen=True)
class InDoubt:
    """An attempt may have reached the forge, or may be about to."""

    status: AttemptStatus


@dataclass(frozen=True)
class Blocked:
    """Proven absent, and only an operator may authorise another attempt."""


Decision = Send | AlreadyDone | InDoubt | Blocked


def decide(attempts: Sequence[tuple[int, AttemptStatus]]) -> Decision:
    """What a claim of an identity with these attempts, oldest first, may do. Keeps P2 and P6."""
    for attempt, status in attempts:
        if status is AttemptStatus.SUCCEEDED:
            return AlreadyDone(attempt)
        if status in (AttemptStatus.RUNNING, AttemptStatus.UNCERTAIN):
            return InDoubt(status)
    if not attempts:
        return Send(attempt=1)
    last, status = attempts[-1]
    return Blocked() if status is AttemptStatus.ABSENT else Send(attempt=last + 1)


def is_durable(wanted_version: int, latest_version: int) -> bool:
    """Whether a claim may rely on this checkpoint; version 0 is none at all. Keeps P1."""
    return 1 <= wanted_version <= latest_version


def never_publishes(action: str) -> bool:
    """Whether this is shadow dispatch. Keeps L6."""
    return action.endswith(SHADOW_SUFFIX)


def content_digest(content: Mapping[str, object]) -> bytes:
    """SHA-256 of the content in one form on every machine: sorted names, no spaces, ASCII."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).digest()
