"""Markers: what ours say, and that a user's text holds none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.publisher.forges.evidence import marker, without_markers
from services.publisher.model import Slot

KEY = "github.com/1296269#7@ec26c3e57ca3a959ca5aad62de7213c562f8c821:manual-1024"
SLOT = Slot(key=KEY, publication_id=41, attempt=2)
ANY_MARKER = re.compile(r"<!--\s*(fencepost|anton|gilf)-", re.IGNORECASE)


@pytest.mark.guarantee("P7")
def test_a_marker_names_key_publication_and_attempt() -> None:
    assert marker(SLOT) == f"<!-- fencepost-review key={KEY} publication=41 attempt=2 -->"


@pytest.mark.guarantee("P7")
def test_a_key_cannot_end_the_marker() -> None:
    text = marker(Slot(key="a --> <b>\n", publication_id=1, attempt=1))
    assert text.count("-->") == 1
    assert text.endswith(" -->")
    assert "\n" not in text


@pytest.mark.guarantee("P7")
@pytest.mark.parametrize(
    "copied",
    [
        marker(SLOT),
        "<!--fencepost-review key=x -->",
        "<!--\n\tFencePost-Review key=x -->",
        "<!-- fencepost-comment key=x -->",
        "<!-- anton-review octo-org/widgets#7@abc -->",
        "<!-- gilf-review-receipt octo-org/widgets#7@abc -->",
        "<!<!-- fencepost-review -- fencepost-review key=x -->",
        "<!-- <!-- fencepost-review key=x -->",
    ],
)
def test_a_copied_marker_does_not_count(copied: str) -> None:
    text = without_markers(f"before {copied} after")
    assert not ANY_MARKER.search(text)
    assert text.startswith("before ")
    assert text.endswith(" after")


@pytest.mark.parametrize(
    "text", ["", "plain", "<!-- a note -->", "fencepost-review", "`a < b` <!-- fence -->", "--> <!"]
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert without_markers(text) == text


@given(st.lists(st.sampled_from(["<", "!", "--", "<!--", " ", "\n", "fencepost-", "anton-", "x"])))
def test_no_arrangement_of_parts_makes_a_marker(parts: list[str]) -> None:
    assert not ANY_MARKER.search(without_markers("".join(parts)))
