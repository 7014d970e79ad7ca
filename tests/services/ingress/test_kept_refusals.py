"""A flood of one refusal is recorded once an hour, whatever ids it comes under."""

from dataclasses import replace

import pytest
from fencepost.errors import BodyTooLarge, DeliveryConflict, FieldInvalid, Internal, Refusal

from services.ingress import kept_refusals
from services.ingress.kept_refusals import KEPT_APART_S, KeptRefusals
from services.ingress.submissions import Submission
from tests.services.ingress.desk import Desk
from tests.services.ingress.pulls import ENDPOINT, submission

MISSING = FieldInvalid(violations=[("action", "is missing")])
SENT = submission(ENDPOINT, "d-1", b"{}")
LARGE = replace(SENT, body=b"")


class Clock:
    """Stands still until it is set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("kept", "again", "is_same"),
    [
        ((SENT, MISSING), (SENT, MISSING), True),
        ((SENT, MISSING), (replace(SENT, delivery_id="d-2", event="odd"), MISSING), True),
        ((SENT, Internal(error_id="1")), (SENT, Internal(error_id="2")), True),
        ((SENT, MISSING), (replace(SENT, body=b"[]"), MISSING), False),
        ((SENT, MISSING), (SENT, FieldInvalid(violations=[("number", "is missing")])), False),
        ((SENT, MISSING), (SENT, DeliveryConflict(endpoint="e", delivery_id="d-1")), False),
        (
            (SENT, MISSING),
            (replace(SENT, endpoint=replace(ENDPOINT, name="other")), MISSING),
            False,
        ),
        (
            (LARGE, BodyTooLarge(limit_bytes=5)),
            (replace(LARGE, delivery_id="d-2"), BodyTooLarge(limit_bytes=5)),
            False,
        ),
    ],
)
def test_the_same_is_known_by_its_body_and_why_it_is_refused(
    kept: tuple[Submission, Refusal], again: tuple[Submission, Refusal], is_same: bool
) -> None:
    refusals = KeptRefusals()
    refusals.add(*kept)
    assert refusals.has(*again) is is_same


def test_after_an_hour_it_is_new_and_of_too_many_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    refusals = KeptRefusals(clock_s=clock)
    refusals.add(SENT, MISSING)
    clock.now_s = KEPT_APART_S
    assert not refusals.has(SENT, MISSING)
    monkeypatch.setattr(kept_refusals, "KEPT_MAX", 2)
    for body in (b"1", b"2", b"3"):
        refusals.add(replace(SENT, body=body), MISSING)
    assert [refusals.has(replace(SENT, body=body), MISSING) for body in (b"1", b"2", b"3")] == [
        False,
        True,
        True,
    ]


@pytest.mark.guarantee("I4", "I8")
async def test_a_flood_under_many_ids_leaves_one_record(desk: Desk) -> None:
    for number in range(5):
        sent = submission(desk.endpoint, f"d-{number}", b"{}")
        await desk.intake.keep_refused(sent, MISSING)
    assert await desk.written() == {"deliveries": 1}
