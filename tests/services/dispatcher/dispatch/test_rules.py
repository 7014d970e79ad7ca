"""Every decision of the dispatcher, by table; frames, whatever the sizes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from services.dispatcher.dispatch.rules import (
    Bury,
    ChangeRequestMarks,
    Failure,
    Park,
    PutBack,
    Retry,
    Settled,
    after_failure,
    attempts_allowed,
    in_frames,
    refusal,
    success_is_durable,
    unwanted,
)
from shared.schema.states import Disposition, IntentStatus, LeaseState

ALLOWED = 3
DELAY_MS = 60_000
RECHECK_MS = 600_000


@pytest.mark.guarantee("L1")
@pytest.mark.parametrize(
    ("generation", "superseded_through", "abandoned_through", "status"),
    [
        (1, 0, 0, None),
        (1, 1, 0, IntentStatus.SUPERSEDED),
        (2, 1, 0, None),
        (2, 3, 0, IntentStatus.SUPERSEDED),
        (1, 0, 1, IntentStatus.ABANDONED),
        (2, 0, 1, None),
        (2, 1, 2, IntentStatus.ABANDONED),
        (1, 1, 2, IntentStatus.SUPERSEDED),
    ],
)
def test_a_generation_that_is_marked_is_not_wanted(
    generation: int, superseded_through: int, abandoned_through: int, status: IntentStatus | None
) -> None:
    marks = ChangeRequestMarks(
        superseded_through=superseded_through, abandoned_through=abandoned_through
    )
    settled = unwanted(generation, "", marks)
    assert (settled.status if settled else None) is status


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize(
    ("suffix", "status"),
    [
        ("manual-9", None),
        ("manual-9.fix", None),
        ("rerun-0f", None),
        ("merge-group", None),
        ("merge-group-2", IntentStatus.SUPERSEDED),
        ("nightly", IntentStatus.SUPERSEDED),
    ],
)
def test_what_a_person_or_a_queue_asked_for_outlives_a_newer_head_and_no_closing(
    suffix: str, status: IntentStatus | None
) -> None:
    newer = ChangeRequestMarks(superseded_through=1, abandoned_through=0)
    settled = unwanted(1, suffix, newer)
    assert (settled.status if settled else None) is status
    closed = ChangeRequestMarks(superseded_through=0, abandoned_through=1)
    ended = unwanted(1, suffix, closed)
    assert ended is not None
    assert ended.status is IntentStatus.ABANDONED


def test_what_nobody_has_told_of_is_wanted() -> None:
    assert unwanted(1, "", None) is None


@pytest.mark.guarantee("I9")
def test_work_for_a_group_that_is_gone_is_not_wanted() -> None:
    fresh = ChangeRequestMarks(superseded_through=0, abandoned_through=0)
    for marks in (None, fresh):
        settled = unwanted(1, "merge-group", marks, group_gone=True)
        assert settled is not None
        assert settled.status is IntentStatus.ABANDONED


REFUSALS = [
    (2, LeaseState.RUNNING, 1, "lease"),
    (2, LeaseState.RUNNING, 2, "lease"),
    (2, LeaseState.RUNNING, 3, "lease"),
    (2, LeaseState.SUCCEEDED, 2, IntentStatus.DUPLICATE),
    (2, LeaseState.SUCCEEDED, 3, IntentStatus.SUPERSEDED),
    (2, LeaseState.SUCCEEDED, 1, "time"),
    (2, LeaseState.SUPERSEDED, 2, IntentStatus.SUPERSEDED),
    (2, LeaseState.SUPERSEDED, 3, IntentStatus.SUPERSEDED),
    (2, LeaseState.SUPERSEDED, 1, "time"),
    (2, LeaseState.ABANDONED, 2, IntentStatus.ABANDONED),
    (2, LeaseState.ABANDONED, 3, IntentStatus.ABANDONED),
    (2, LeaseState.ABANDONED, 1, "time"),
    (2, LeaseState.FREE, 2, "time"),
    (2, LeaseState.FREE, 3, IntentStatus.SUPERSEDED),
    (2, LeaseState.DEAD, 2, "time"),
    (2, LeaseState.DEAD, 3, IntentStatus.SUPERSEDED),
    (2, None, 0, "time"),
]


@pytest.mark.guarantee("L1", "L5")
@pytest.mark.parametrize(("generation", "state", "lease_generation", "expected"), REFUSALS)
def test_why_no_lease_was_granted_says_what_becomes_of_the_intent(
    generation: int,
    state: LeaseState | None,
    lease_generation: int,
    expected: IntentStatus | str,
) -> None:
    refused = refusal(generation, state, lease_generation)
    became = refused.waits_on if isinstance(refused, PutBack) else refused.status
    assert became == expected
    assert isinstance(refused, Settled) is isinstance(expected, IntentStatus)
    assert refused.reason


@pytest.mark.guarantee("L5")
def test_every_state_of_a_lease_has_a_row_and_success_alone_acknowledges() -> None:
    assert {state for _, state, _, _ in REFUSALS} == {*LeaseState, None}
    acknowledged = {(state, own == of) for own, state, of, end in REFUSALS if end == "duplicate"}
    assert acknowledged == {(LeaseState.SUCCEEDED, True)}


@pytest.mark.parametrize(
    ("retries_max", "attempts_max", "allowed"), [(0, 8, 1), (3, 8, 4), (8, 8, 8), (100, 8, 8)]
)
def test_attempts_are_the_first_and_the_retries_up_to_a_limit(
    retries_max: int, attempts_max: int, allowed: int
) -> None:
    assert attempts_allowed(retries_max=retries_max, attempts_max=attempts_max) == allowed


def what_follows(
    disposition: Disposition,
    *,
    attempts: int = 1,
    before: bool = False,
    retry_after_ms: int | None = None,
) -> Retry | Park | Bury:
    failure = Failure(
        disposition=disposition,
        attempts=attempts,
        deterministic_before=before,
        retry_after_ms=retry_after_ms,
    )
    return after_failure(failure, allowed=ALLOWED, delay_ms=DELAY_MS, recheck_ms=RECHECK_MS)


@pytest.mark.parametrize("attempts", range(1, ALLOWED))
def test_a_transient_failure_is_tried_again(attempts: int) -> None:
    follows = what_follows(Disposition.TRANSIENT, attempts=attempts)
    assert follows == Retry(DELAY_MS, attempts)


@pytest.mark.parametrize("disposition", [Disposition.TRANSIENT, Disposition.DETERMINISTIC])
@pytest.mark.parametrize("attempts", [ALLOWED, ALLOWED + 1])
def test_out_of_attempts_is_the_end(disposition: Disposition, attempts: int) -> None:
    follows = what_follows(disposition, attempts=attempts)
    assert isinstance(follows, Bury)
    assert f"{attempts} times" in follows.reason


def test_a_deterministic_failure_gets_one_more_try() -> None:
    assert what_follows(Disposition.DETERMINISTIC) == Retry(DELAY_MS, 1)
    assert isinstance(what_follows(Disposition.DETERMINISTIC, attempts=2, before=True), Bury)


def test_a_transient_failure_after_a_deterministic_one_is_judged_by_itself() -> None:
    assert what_follows(Disposition.TRANSIENT, attempts=2, before=True) == Retry(DELAY_MS, 2)


def test_a_permanent_failure_is_the_end_at_once() -> None:
    assert isinstance(what_follows(Disposition.PERMANENT), Bury)


@pytest.mark.guarantee("P2")
@pytest.mark.parametrize("attempts", [1, ALLOWED, ALLOWED + 5])
def test_blocked_work_parks_and_costs_no_attempt(attempts: int) -> None:
    assert what_follows(Disposition.BLOCKED, attempts=attempts) == Park(RECHECK_MS, attempts - 1)


@pytest.mark.parametrize(
    ("disposition", "follows"),
    [
        (Disposition.TRANSIENT, Retry(5, 1)),
        (Disposition.DETERMINISTIC, Retry(5, 1)),
        (Disposition.BLOCKED, Park(5, 0)),
    ],
)
def test_a_failure_may_name_its_own_delay(disposition: Disposition, follows: Retry | Park) -> None:
    assert what_follows(disposition, retry_after_ms=5) == follows


@pytest.mark.guarantee("C4")
@pytest.mark.parametrize(
    ("claimed", "latest", "final", "durable"),
    [
        (0, None, False, True),
        (1, None, False, False),
        (2, 2, True, True),
        (2, 2, False, False),
        (1, 2, True, False),
        (3, 2, True, False),
        (0, 2, True, False),
    ],
)
def test_success_needs_the_final_flush(
    claimed: int, latest: int | None, final: bool, durable: bool
) -> None:
    assert (
        success_is_durable(claimed_version=claimed, latest_version=latest, latest_is_final=final)
        is durable
    )


@given(
    sizes=some.lists(some.integers(min_value=0, max_value=50), max_size=40),
    items_max=some.integers(min_value=1, max_value=7),
    bytes_max=some.integers(min_value=1, max_value=40),
)
def test_frames_hold_every_item_in_order_within_their_bounds(
    sizes: list[int], items_max: int, bytes_max: int
) -> None:
    frames = list(in_frames(sizes, lambda size: size, items_max=items_max, bytes_max=bytes_max))
    assert [size for frame in frames for size in frame] == sizes
    for frame in frames:
        assert 1 <= len(frame) <= items_max
        assert sum(frame) <= bytes_max or len(frame) == 1
    for earlier, later in pairwise(frames):
        full = len(earlier) == items_max
        assert full or sum(earlier) + later[0] > bytes_max
