"""What a claim may do, by tables."""

import hashlib
import itertools

import pytest

from services.publisher.ledger.rules import (
    AlreadyDone,
    Blocked,
    Decision,
    InDoubt,
    Send,
    content_digest,
    decide,
    is_durable,
    never_publishes,
)
from shared.schema.states import ATTEMPTS_THAT_BLOCK, AttemptStatus

RUNNING, SUCCEEDED, UNCERTAIN = ATTEMPTS_THAT_BLOCK
REFUSED, ABSENT = AttemptStatus.REFUSED, AttemptStatus.ABSENT

DECISIONS: tuple[tuple[tuple[AttemptStatus, ...], Decision], ...] = (
    ((), Send(attempt=1)),
    ((REFUSED,), Send(attempt=2)),
    ((REFUSED, REFUSED), Send(attempt=3)),
    ((ABSENT, REFUSED), Send(attempt=3)),
    ((ABSENT,), Blocked()),
    ((REFUSED, ABSENT), Blocked()),
    ((RUNNING,), InDoubt(RUNNING)),
    ((UNCERTAIN,), InDoubt(UNCERTAIN)),
    ((REFUSED, RUNNING), InDoubt(RUNNING)),
    ((ABSENT, UNCERTAIN), InDoubt(UNCERTAIN)),
    ((SUCCEEDED,), AlreadyDone(attempt=1)),
    ((REFUSED, SUCCEEDED), AlreadyDone(attempt=2)),
    ((ABSENT, REFUSED, SUCCEEDED), AlreadyDone(attempt=3)),
)


@pytest.mark.guarantee("P2")
@pytest.mark.parametrize(("statuses", "decision"), DECISIONS)
def test_the_attempts_decide(statuses: tuple[AttemptStatus, ...], decision: Decision) -> None:
    assert decide(list(enumerate(statuses, start=1))) == decision


@pytest.mark.guarantee("P2", "P6")
def test_nothing_is_sent_while_an_attempt_blocks() -> None:
    for statuses in itertools.product(AttemptStatus, repeat=3):
        decision = decide(list(enumerate(statuses, start=1)))
        if any(status in ATTEMPTS_THAT_BLOCK for status in statuses):
            assert not isinstance(decision, Send)


@pytest.mark.guarantee("P1")
@pytest.mark.parametrize(
    ("wanted", "latest", "durable"),
    [
        (0, 0, False),
        (0, 5, False),
        (1, 0, False),
        (1, 1, True),
        (1, 7, True),
        (7, 7, True),
        (8, 7, False),
    ],
)
def test_a_checkpoint_is_durable_from_its_version_on(
    wanted: int, latest: int, durable: bool
) -> None:
    assert is_durable(wanted_version=wanted, latest_version=latest) is durable


@pytest.mark.parametrize(
    ("action", "never"),
    [
        ("container-dispatch", False),
        ("container-dispatch:shadow", True),
        ("shadow", False),
        ("container-dispatch:shadow:live", False),
    ],
)
def test_shadow_dispatch_is_known_by_the_end_of_its_action(action: str, never: bool) -> None:
    assert never_publishes(action) is never


def test_the_digest_is_of_one_form_on_every_machine() -> None:
    canonical = rb'{"a":[1,"\ud83c\udf08"],"b":"\u00fc"}'
    expected = hashlib.sha256(canonical).digest()
    assert content_digest({"b": "ü", "a": (1, "🌈")}) == expected
    assert content_digest({"a": [1, "🌈"], "b": "ü"}) == expected


def test_the_digest_tells_contents_apart() -> None:
    # The same letter in two Unicode forms is not the same text.
    contents: list[dict[str, object]] = [
        {"body": "ü"},
        {"body": "u\u0308"},
        {"body": "ü "},
        {"body": ["ü"]},
        {"bodÿ": ""},
    ]
    assert len({content_digest(content) for content in contents}) == len(contents)
