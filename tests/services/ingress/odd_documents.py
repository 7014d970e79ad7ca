"""Odd input for hypothesis to draw from: values, real documents with one field changed, and none.

How many examples a test takes is its share of FUZZ_EXAMPLES, which `make fuzz` sets; else a few.
"""

import copy
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from services.ingress.body_rules import JSON, HugeNumber, read_document
from tests.services.ingress.gitea_pulls import gitea_comment, gitea_document
from tests.services.ingress.gitlab_merges import (
    merge_document,
    note_document,
    push_document,
    reviewer,
)
from tests.services.ingress.published import check_document, comment_document, published
from tests.services.ingress.pulls import A, B, pull

_ENVIRONMENT = os.environ  # noqa: TID251 - says how long to look, and nothing of the product
EXAMPLES = int(_ENVIRONMENT.get("FUZZ_EXAMPLES") or 0)

TIMEOUT_S = 120
"""Beside a second for each example, which is many times what it takes."""

F = TypeVar("F", bound=Callable[..., None])

Case = tuple[str, dict[str, Any]]

_GITEA: list[Case] = [
    ("pull_request", gitea_document("edited")),
    ("pull_request", gitea_document("synchronized")),
    ("pull_request", gitea_document("review_requested") | {"requested_reviewer": {"id": 7}}),
    ("issue_comment", gitea_comment()),
    ("push", push_document(before=A, after="0" * 40)),
]
CASES: dict[str, list[Case]] = {
    "forgejo": _GITEA,
    "gitea": _GITEA,
    "github": [
        ("pull_request", read_document(pull("synchronize", before=B), JSON)),
        ("pull_request", published("pull_request", "review_requested")),
        ("issue_comment", comment_document(action="edited")),
        ("pull_request_review_comment", published("pull_request_review_comment", "created")),
        ("pull_request_review", published("pull_request_review", "submitted")),
        ("check_run", check_document("check_run", "requested_action", [7, 8])),
        ("check_suite", check_document("check_suite", "requested", [])),
        ("merge_group", published("merge_group", "checks_requested")),
        ("push", published("push", "")),
    ],
    "gitlab": [
        ("merge_request", merge_document("update", oldrev=B, changes={"draft": {}})),
        ("merge_request", merge_document("update", changes={"reviewers": [[], [reviewer(7)]]})),
        ("note", note_document()),
        ("push", push_document(before=A, after="0" * 40)),
    ],
}
"""Real or documented bodies of every event that is looked into, by kind of forge."""

EVENTS = sorted({event for cases in CASES.values() for event, _ in cases} | {"ping", "of-late"})

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(), max_size=20),
    st.sampled_from(
        [A, "0" * 40, "2026-05-01 12:00:00 UTC", "https://x", "/review", "created", 2**63, 10**39]
    ),
)
VALUES = st.one_of(
    LEAVES,
    LEAVES,
    st.lists(LEAVES, max_size=3),
    st.dictionaries(st.text(max_size=5), LEAVES, max_size=3),
    st.recursive(
        LEAVES,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ),
)
READ_VALUES: st.SearchStrategy[Any] = VALUES | st.just(HugeNumber())
"""What a body's values can be once they are read."""


_NAMES = sorted({name for cases in CASES.values() for _, document in cases for name in document})


def documents(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Documents of any fields, many of whose names mean something."""
    return st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=5), values, max_size=6)


def patient(share: float, *, few: int, shrinks: bool = True) -> Callable[[F], F]:
    """Gives a test its share of all examples, and the time for them; where none are asked a few.

    Making a failing example small tries it again thousands of times: nothing for the wire.
    """
    examples = round(EXAMPLES * share) or few
    settled = settings(
        deadline=None,
        max_examples=examples,
        phases=[phase for phase in Phase if shrinks or phase not in (Phase.shrink, Phase.explain)],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )

    def patiently(test: F) -> F:
        limit = pytest.mark.timeout(TIMEOUT_S + examples)
        return cast(F, pytest.mark.fuzz(limit(settled(test))))

    return patiently


def paths(document: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every field of a document, at any depth."""
    found = []
    for name, value in document.items():
        found.append((*above, name))
        if isinstance(value, dict):
            found += paths(value, (*above, name))
    return found


_PLACES = {
    kind: [(event, document, paths(document)) for event, document in cases]
    for kind, cases in CASES.items()
}


@st.composite
def changed_cases(draw: st.DrawFn, kind: str, values: st.SearchStrategy[object]) -> Case:
    """A real document of which one field holds something else."""
    event, document, places = draw(st.sampled_from(_PLACES[kind]))
    *parents, name = draw(st.sampled_from(places))
    return event, _with(document, parents, name, draw(values))


def _with(document: dict[str, Any], parents: list[str], name: str, value: object) -> dict[str, Any]:
    """A copy; what lies beside the way to the field is shared."""
    changed = inner = copy.copy(document)
    for parent in parents:
        inner[parent] = copy.copy(inner[parent])
        inner = inner[parent]
    inner[name] = value
    return changed
