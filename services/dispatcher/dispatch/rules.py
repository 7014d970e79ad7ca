"""Decisions of the dispatcher: why a grant is refused, what follows from an outcome."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from shared.schema.states import Disposition, IntentStatus, LeaseState

ASKED_BY_PERSONS = ("manual-", "rerun-")
"""How the suffixes of such keys begin."""

MERGE_GROUP = "merge-group"
"""Suffix of the work for merge groups, whose commit is no change request's head."""

T = TypeVar("T")


@dataclass(frozen=True)
class PutBack:
    """Not now: wait for the holder's end, or for a moment where the reason is unknown (L5)."""

    waits_on: Literal["lease", "time"]
    reason: str


@dataclass(frozen=True)
class Settled:
    """Never: the intent ends here without a dispatch."""

    status: IntentStatus
    reason: str


@dataclass(frozen=True, kw_only=True)
class ChangeRequestMarks:
    """Generations of a change request that are no longer wanted (I9)."""

    superseded_through: int
    abandoned_through: int


def unwanted(
    generation: int, suffix: str, marks: ChangeRequestMarks | None, *, group_gone: bool = False
) -> Settled | None:
    """Whether its merge group is gone or the change request has moved on; no marks: unheard of.

    What a person asked for, by command or as a re-run, outlives a newer head, as does work for a
    merge group (I9).
    """
    if group_gone:
        return Settled(IntentStatus.ABANDONED, "the merge group is gone")
    if marks is None:
        return None
    outlives = suffix == MERGE_GROUP or suffix.startswith(ASKED_BY_PERSONS)
    if generation <= marks.superseded_through and not outlives:
        return Settled(IntentStatus.SUPERSEDED, "a newer head is current")
    if generation <= marks.abandoned_through:
        return Settled(IntentStatus.ABANDONED, "the change request is closed")
    return None


def refusal(
    generation: int, lease_state: LeaseState | None, lease_generation: int
) -> PutBack | Settled:
    """Why a grant was refused, read after it was: unknown means put back, never acknowledged.

    Keeps L1 and L5.
    """
    if lease_state is LeaseState.RUNNING:
        return PutBack("lease", "another holder is running")
    settled_for_it = lease_generation >= generation
    if lease_state is LeaseState.SUCCEEDED and lease_generation == generation:
        return Settled(IntentStatus.DUPLICATE, "its generation had succeeded already")
    if lease_state is LeaseState.SUCCEEDED and settled_for_it:
        return Settled(IntentStatus.SUPERSEDED, "a newer generation of its head succeeded")
    if lease_state is LeaseState.SUPERSEDED and settled_for_it:
        return Settled(IntentStatus.SUPERSEDED, "its generation was superseded")
    if lease_state is LeaseState.ABANDONED and settled_for_it:
        return Settled(IntentStatus.ABANDONED, "its generation was abandoned")
    if lease_state in (LeaseState.FREE, LeaseState.DEAD) and lease_generation > generation:
        return Settled(IntentStatus.SUPERSEDED, "a newer generation of its head was tried")
    return PutBack("time", "its lease changed hands, or its queue was paused, at the same moment")


@dataclass(frozen=True)
class Retry:
    """The intent waits and is tried again."""

    delay_ms: int
    attempts: int


@dataclass(frozen=True)
class Park:
    """The intent waits for something outside, at most so long; no attempt charged."""

    delay_ms: int
    attempts: int


@dataclass(frozen=True)
class Bury:
    """The intent will not be tried again."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What a rule needs to know of a failed dispatch."""

    disposition: Disposition
    attempts: int
    deterministic_before: bool
    retry_after_ms: int | None


def attempts_allowed(*, retries_max: int, attempts_max: int) -> int:
    """Attempts of an intent, the first included (Q2)."""
    return min(1 + retries_max, attempts_max)


def after_failure(
    failure: Failure, *, allowed: int, delay_ms: int, recheck_ms: int
) -> Retry | Park | Bury:
    """What follows from a failure; deterministic ones get at most one more try (Q5).

    A failure that names its own delay waits that long, else `delay_ms`, or `recheck_ms` blocked.
    """
    named_ms = failure.retry_after_ms
    match failure.disposition:
        case Disposition.BLOCKED:
            return Park(recheck_ms if named_ms is None else named_ms, failure.attempts - 1)
        case Disposition.PERMANENT:
            return Bury("the worker said that it must not be tried again")
        case Disposition.DETERMINISTIC if failure.deterministic_before:
            return Bury("it failed deterministically twice")
        case Disposition.DETERMINISTIC | Disposition.TRANSIENT:
            if failure.attempts >= allowed:
                return Bury(f"it failed {failure.attempts} times, and {allowed} are allowed")
            return Retry(delay_ms if named_ms is None else named_ms, failure.attempts)


def success_is_durable(
    *, claimed_version: int, latest_version: int | None, latest_is_final: bool
) -> bool:
    """Whether success may be recorded: the run never flushed, or its last flush was final (C4)."""
    if latest_version is None:
        return claimed_version == 0
    return latest_is_final and claimed_version == latest_version


def in_frames(
    items: Iterable[T], size_bytes: Callable[[T], int], *, items_max: int, bytes_max: int
) -> Iterator[list[T]]:
    """Cuts a list into frames bounded by count and bytes; a larger item travels alone."""
    frame: list[T] = []
    frame_bytes = 0
    for item in items:
        item_bytes = size_bytes(item)
        if frame and (len(frame) == items_max or frame_bytes + item_bytes > bytes_max):
            yield frame
            frame, frame_bytes = [], 0
        frame.append(item)
        frame_bytes += item_bytes
    if frame:
        yield frame
