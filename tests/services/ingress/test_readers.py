"""No reader falls over: whatever stands in a document, it is read or refused by a field's name."""

import json
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingress.body_rules import MalformedError, is_storable
from services.ingress.fields_rules import INT64_MAX
from services.ingress.operations import READERS
from services.ingress.rules import AskKind, Reading, WorkAsked, decide
from tests.services.ingress.odd_documents import (
    CASES,
    EVENTS,
    READ_VALUES,
    Case,
    changed_cases,
    documents,
    patient,
)

COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def is_read_or_refused_by_name(read: Callable[[], Reading]) -> bool:
    """Whether a reading comes of it that can be decided and stored, or the name of a field."""
    try:
        reading = read()
    except MalformedError as malformed:
        return bool(malformed.field)
    if not is_storable(json.dumps(dict(reading.projection), ensure_ascii=False)):
        return False
    if reading.event is not None:
        return reading.asks is None and decide(None, reading.event).record is not None
    if reading.asks is not None:
        return reading.ignored is None and is_sound(reading.asks)
    return reading.ignored is not None


def is_sound(asks: WorkAsked) -> bool:
    """Whether work can be made of it: what it is for is known, and fits where it is stored."""
    numbers = [asks.repo_id, *asks.pull_numbers, *asks.reviewer_ids]
    numbers += [each for each in (asks.number, asks.comment_id) if each is not None]
    if not all(0 < number <= INT64_MAX for number in numbers):
        return False
    if asks.kind is AskKind.COMMAND:
        return bool(asks.commands and asks.number and asks.comment_id and asks.head_sha is None)
    return asks.head_sha is not None and COMMIT.fullmatch(asks.head_sha) is not None


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("kind", READERS)
@patient(1 / 8, few=125)
@given(data=st.data())
def test_one_field_may_hold_anything(kind: str, data: st.DataObject) -> None:
    event, document = data.draw(changed_cases(kind, READ_VALUES))
    assert is_read_or_refused_by_name(lambda: READERS[kind](event, document))


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("kind", READERS)
@patient(1 / 8, few=125)
@given(event=st.sampled_from(EVENTS), document=documents(READ_VALUES))
def test_a_document_may_be_anything(kind: str, event: str, document: dict[str, object]) -> None:
    assert is_read_or_refused_by_name(lambda: READERS[kind](event, document))


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("event", EVENTS)
def test_a_body_of_another_forge_is_no_accident(kind: str, event: str) -> None:
    cases: list[Case] = [case for cases in CASES.values() for case in cases]
    for _, document in cases:
        assert is_read_or_refused_by_name(partial(READERS[kind], event, document))


@pytest.mark.parametrize("kind", READERS)
def test_the_bodies_that_are_changed_are_read_as_they_are(kind: str) -> None:
    readings = [READERS[kind](event, document) for event, document in CASES[kind]]
    assert any(reading.event for reading in readings)
    assert {reading.asks.kind for reading in readings if reading.asks} >= {
        AskKind.COMMAND,
        AskKind.RERUN,
    }
