"""Which head is current: by table for each decision, and for whole histories in any order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingress.rules import (
    IGNORED_REASONS,
    ChangeRequestEvent,
    Decision,
    IgnoredReason,
    Known,
    Standing,
    Transition,
    decide,
    first_record,
    standing,
)
from shared.schema.states import ChangeRequestState

PATIENT = settings(deadline=None, max_examples=300)

OPEN, CLOSED = ChangeRequestState.OPEN, ChangeRequestState.CLOSED
A, B, C = "a" * 40, "b" * 40, "c" * 40
T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
BEFORE, SAME, AFTER = (T0 + timedelta(seconds=s) for s in (-1, 0, 1))


def event(
    transition: Transition = Transition.OPENED,
    *,
    head_sha: str = A,
    before_sha: str | None = None,
    state: ChangeRequestState | None = None,
    draft: bool = False,
    updated_at: datetime | None = SAME,
) -> ChangeRequestEvent:
    closed = transition is Transition.CLOSED
    return ChangeRequestEvent(
        transition=transition,
        repo_id=1,
        repo_name="octo/widgets",
        number=7,
        head_sha=head_sha,
        before_sha=before_sha,
        base_ref="main",
        state=state or (CLOSED if closed else OPEN),
        draft=draft,
        updated_at=updated_at,
        url="https://github.com/octo/widgets/pull/7",
        from_fork=False,
    )


def known(
    head_sha: str = A,
    *,
    generation: int = 3,
    state: ChangeRequestState = OPEN,
    updated_at: datetime | None = SAME,
) -> Known:
    return Known(head_sha=head_sha, generation=generation, state=state, updated_at=updated_at)


def pushed(before_sha: str, head_sha: str, updated_at: datetime | None) -> ChangeRequestEvent:
    return event(Transition.PUSHED, before_sha=before_sha, head_sha=head_sha, updated_at=updated_at)


@pytest.mark.parametrize(
    ("recorded", "said", "expected"),
    [
        (known(), event(updated_at=AFTER), Standing.NEWER),
        (known(), event(updated_at=BEFORE), Standing.OLDER),
        (known(), event(updated_at=SAME), Standing.UNCLEAR),
        (known(), event(updated_at=None), Standing.UNCLEAR),
        (known(), pushed(A, B, SAME), Standing.NEWER),
        (known(), pushed(A, B, None), Standing.NEWER),
        (known(), pushed(A, B, BEFORE), Standing.OLDER),
        (known(), pushed(C, B, SAME), Standing.UNCLEAR),
        (known(), pushed(C, B, AFTER), Standing.NEWER),
        (known(state=CLOSED), event(Transition.REOPENED), Standing.NEWER),
        (known(state=CLOSED), event(Transition.REOPENED, updated_at=BEFORE), Standing.OLDER),
        (known(), event(Transition.REOPENED), Standing.UNCLEAR),
        (known(), event(Transition.CLOSED), Standing.UNCLEAR),
        (known(updated_at=None), event(updated_at=BEFORE), Standing.NEWER),
        (known(updated_at=None), event(updated_at=None), Standing.UNCLEAR),
        (known(updated_at=None), pushed(A, B, None), Standing.NEWER),
    ],
)
def test_what_is_newer_follows_from_what_the_forge_says(
    recorded: Known, said: ChangeRequestEvent, expected: Standing
) -> None:
    assert standing(recorded, said) is expected


@pytest.mark.parametrize(
    ("recorded", "said", "head_sha", "generation"),
    [
        pytest.param(known(), pushed(A, B, AFTER), B, 4, id="a push moves the head"),
        pytest.param(known(B), pushed(B, A, AFTER), A, 4, id="forced back"),
        pytest.param(known(), event(updated_at=AFTER), A, 3, id="the same head stays current"),
        pytest.param(
            known(), event(Transition.READIED, updated_at=AFTER), A, 3, id="ready for review"
        ),
        pytest.param(known(), event(Transition.REOPENED, updated_at=AFTER), A, 4, id="reopened"),
        pytest.param(known(state=CLOSED), event(updated_at=AFTER), A, 4, id="open after all"),
        pytest.param(known(), event(Transition.CLOSED, updated_at=AFTER), A, 3, id="closed"),
        pytest.param(
            known(), event(Transition.CLOSED, head_sha=B, updated_at=AFTER), B, 4, id="closed at B"
        ),
        pytest.param(
            known(), event(Transition.READIED, head_sha=B, updated_at=AFTER), B, 4, id="ready at B"
        ),
    ],
)
def test_a_newer_event_is_recorded_and_a_head_that_becomes_current_starts_a_generation(
    recorded: Known, said: ChangeRequestEvent, head_sha: str, generation: int
) -> None:
    decision = decide(recorded, said)
    assert decision.record == Known(
        head_sha=head_sha, generation=generation, state=said.state, updated_at=said.updated_at
    )
    assert decision.becomes_current is (generation == recorded.generation + 1)
    assert (decision.generation, decision.unless_known) == (generation, False)


def test_what_nobody_told_of_starts_at_generation_one() -> None:
    said = event(head_sha=B, updated_at=AFTER)
    decision = decide(None, said)
    assert decision.record == first_record(said) == known(B, generation=1, updated_at=AFTER)
    assert (decision.becomes_current, decision.generation) == (True, 1)


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize(
    ("recorded", "said", "unless_known"),
    [
        (known(), event(updated_at=BEFORE), False),
        (known(), event(), False),
        (known(), event(Transition.READIED, head_sha=B), True),
        (known(), pushed(C, B, SAME), False),
        (known(), event(Transition.CLOSED), False),
        (known(state=CLOSED), event(updated_at=BEFORE), False),
        (known(state=CLOSED), event(draft=True), False),
        (known(state=CLOSED), event(Transition.CLOSED, head_sha=B), True),
    ],
)
def test_an_older_or_unclear_event_leaves_the_record_alone(
    recorded: Known, said: ChangeRequestEvent, unless_known: bool
) -> None:
    decision = decide(recorded, said)
    assert (decision.record, decision.becomes_current) == (None, False)
    assert (decision.generation, decision.unless_known) == (recorded.generation, unless_known)


@pytest.mark.guarantee("I9")
@pytest.mark.parametrize(
    "said",
    [event(updated_at=None), event(head_sha=B), pushed(C, B, SAME)],
    ids=["undated", "another head", "pushed"],
)
def test_doubt_about_closing_counts_as_open_under_a_generation_that_nothing_marks(
    said: ChangeRequestEvent,
) -> None:
    decision = decide(known(state=CLOSED), said)
    assert decision.record == known(generation=4)
    assert (decision.becomes_current, decision.generation, decision.ignored) == (True, 4, None)


@pytest.mark.parametrize(
    ("recorded", "said", "ignored"),
    [
        (None, event(), None),
        (None, event(draft=True), IgnoredReason.DRAFT),
        (None, event(Transition.CLOSED), IgnoredReason.CLOSED),
        (None, event(Transition.READIED, state=CLOSED), IgnoredReason.CLOSED),
        (known(), pushed(A, B, AFTER), None),
        (known(), event(Transition.READIED, updated_at=AFTER), None),
        (known(), event(draft=True, updated_at=AFTER), IgnoredReason.DRAFT),
        (known(), event(updated_at=BEFORE), None),
        (known(), event(head_sha=B, updated_at=BEFORE), IgnoredReason.HEAD_OUTDATED),
        (known(state=CLOSED), event(updated_at=BEFORE), IgnoredReason.CLOSED),
        (known(), event(head_sha=B), None),
        (known(state=CLOSED), event(), None),
    ],
)
def test_whether_a_delivery_makes_work(
    recorded: Known | None, said: ChangeRequestEvent, ignored: IgnoredReason | None
) -> None:
    assert decide(recorded, said).ignored is ignored


def test_every_reason_is_documented() -> None:
    assert set(IGNORED_REASONS) == set(IgnoredReason)


heads = st.sampled_from([A, B, C])
instants = st.none() | st.sampled_from([BEFORE, SAME, AFTER])
states = st.sampled_from(ChangeRequestState)
events = st.builds(
    event,
    st.sampled_from(Transition),
    head_sha=heads,
    before_sha=st.none() | heads,
    state=states,
    draft=st.booleans(),
    updated_at=instants,
)
records = st.builds(known, heads, generation=st.integers(1, 9), state=states, updated_at=instants)


@PATIENT
@given(st.none() | records, events)
def test_the_generation_rises_by_one_exactly_when_a_head_becomes_current(
    recorded: Known | None, said: ChangeRequestEvent
) -> None:
    decision = decide(recorded, said)
    before = 0 if recorded is None else recorded.generation
    after = before if decision.record is None else decision.record.generation
    assert after - before == decision.becomes_current
    if decision.record is not None:
        keeps = recorded if recorded and standing(recorded, said) is Standing.UNCLEAR else said
        assert decision.record.head_sha == keeps.head_sha
        assert decision.generation == after
    if recorded is not None and decision.record is not None and recorded.updated_at:
        assert decision.record.updated_at is not None
        assert decision.record.updated_at >= recorded.updated_at


@st.composite
def histories(draw: st.DrawFn) -> list[ChangeRequestEvent]:
    """What a forge tells of one change request, each event dated later than the one before."""
    said = [event(head_sha=draw(heads), updated_at=T0)]
    for second in range(1, draw(st.integers(1, 6))):
        last = said[-1]
        at = T0 + timedelta(seconds=second)
        if last.state is CLOSED:
            said.append(event(Transition.REOPENED, head_sha=last.head_sha, updated_at=at))
        elif draw(st.booleans()):
            said.append(pushed(last.head_sha, draw(heads.filter(last.head_sha.__ne__)), at))
        else:
            said.append(event(Transition.CLOSED, head_sha=last.head_sha, updated_at=at))
    return said


@PATIENT
@given(st.data(), histories())
def test_in_whatever_order_a_history_arrives_its_end_is_what_is_recorded(
    data: st.DataObject, history: list[ChangeRequestEvent]
) -> None:
    recorded: Known | None = None
    last_decision: Decision | None = None
    for said in data.draw(st.permutations(history)):
        last_decision = decide(recorded, said)
        recorded = last_decision.record or recorded
    assert recorded is not None
    assert last_decision is not None
    assert replace(recorded, generation=1) == replace(first_record(history[-1]), generation=1)


@PATIENT
@given(histories())
def test_in_order_every_head_that_becomes_current_is_worked_on_once(
    history: list[ChangeRequestEvent],
) -> None:
    recorded: Known | None = None
    worked_on: list[int] = []
    for said in history:
        decision = decide(recorded, said)
        recorded = decision.record
        if decision.ignored is None:
            worked_on.append(decision.generation)
    wanted = [said for said in history if said.state is OPEN]
    assert worked_on == list(range(1, len(wanted) + 1))
