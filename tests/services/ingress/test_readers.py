"""No reader falls over: whatever stands in a document, it is read or refused by a field's name."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingress.body_rules import JSON, HugeNumber, MalformedError, read_document
from services.ingress.operations import READERS
from services.ingress.rules import Reading, decide
from tests.services.ingress.gitea_pulls import gitea_document
from tests.services.ingress.gitlab_merges import merge_document, note_document, push_document
from tests.services.ingress.pulls import A, B, pull

PATIENT = settings(deadline=None, max_examples=80)
EVENTS = ("pull_request", "merge_request", "push", "tag_push", "note", "delete", "ping", "of-late")
DOCUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "github": ("pull_request", read_document(pull("synchronize", before=B), JSON)),
    "gitea": ("pull_request", gitea_document("edited")),
    "forgejo": ("pull_request", gitea_document("synchronized")),
    "gitlab": ("merge_request", merge_document("update", oldrev=B, changes={"draft": {}})),
}
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters()),
    st.sampled_from([A, "0" * 40, "2026-05-01 12:00:00 UTC", "https://x", HugeNumber()]),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


def is_read_or_refused_by_name(read: Callable[[], Reading]) -> bool:
    """Whether a reading comes of it that can be decided, or the name of a field."""
    try:
        reading = read()
    except MalformedError as malformed:
        return bool(malformed.field)
    if reading.event is None:
        return reading.ignored is not None
    return decide(None, reading.event).record is not None


def paths(document: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every field of a document, at any depth."""
    found = []
    for name, value in document.items():
        found.append((*above, name))
        if isinstance(value, dict):
            found += paths(value, (*above, name))
    return found


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("kind", READERS)
@PATIENT
@given(data=st.data(), value=VALUES)
def test_one_field_may_hold_anything(kind: str, data: st.DataObject, value: object) -> None:
    event, document = copy.deepcopy(DOCUMENTS[kind])
    *parents, name = data.draw(st.sampled_from(paths(document)))
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    assert is_read_or_refused_by_name(lambda: READERS[kind](event, document))


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("kind", READERS)
@PATIENT
@given(event=st.sampled_from(EVENTS), document=st.dictionaries(st.text(), VALUES))
def test_a_document_may_be_anything(kind: str, event: str, document: dict[str, object]) -> None:
    assert is_read_or_refused_by_name(lambda: READERS[kind](event, document))


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("event", EVENTS)
def test_a_body_of_another_forge_is_no_accident(kind: str, event: str) -> None:
    others = [document for _, document in DOCUMENTS.values()]
    for document in [*others, note_document(), push_document(before=A, after="0" * 40)]:
        assert is_read_or_refused_by_name(partial(READERS[kind], event, document))
