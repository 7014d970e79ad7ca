"""A signature is checked over the bytes that came, never over what they were read as."""

import json

import pytest

from tests.cases.stored import bodies
from tests.services.ingress.pulls import SECRET, pull
from tests.services.ingress.webhooks.posting import Door, signed
from tests.signing import github_signature

TITLE = "Fix caf\u00e9 \U0001f389 "


def written_as(number: int, *, ascii_only: bool = False, colon: str = ": ", end: str = "") -> bytes:
    document = {**json.loads(pull(number=number, title=TITLE)), "n": 1.0}
    text = json.dumps(document, ensure_ascii=ascii_only, separators=(", ", colon))
    return (text + end).encode()


WAYS = {
    "literal": written_as(1),
    "escaped": written_as(2, ascii_only=True),
    "two-blanks": written_as(3, colon=":  "),
    "newline-at-the-end": written_as(4, end="\n"),
}


@pytest.mark.guarantee("I5", "I10")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_write_it_is_taken_in_under_its_own_signature(github: Door, way: str) -> None:
    body = WAYS[way]
    assert github.post(body, signed(body, x_github_delivery=way)).status_code == 202
    assert bodies(github, way) == [body]


@pytest.mark.guarantee("I5")
def test_a_signature_over_another_way_to_write_the_same_is_wrong(github: Door) -> None:
    literal, escaped = written_as(5), written_as(5, ascii_only=True)
    assert json.loads(literal) == json.loads(escaped)
    crossed = signed(
        escaped,
        x_github_delivery="crossed",
        x_hub_signature_256=github_signature(SECRET.encode(), literal),
    )
    assert github.post(escaped, crossed).status_code == 401
    assert bodies(github, "crossed") == []
