"""What an authentic sender must not see refused is kept, and keeps nothing from being taken in."""

from fencepost.errors import FieldInvalid

from shared.schema.states import DeliveryOutcome
from tests.services.ingress.desk import Desk
from tests.services.ingress.pulls import pull, submission

REFUSAL = FieldInvalid(violations=[("action", "is \0 missing")])


async def test_what_was_refused_is_found_until_its_id_is_taken_in(desk: Desk) -> None:
    refused = submission(desk.endpoint, "d-1", b"{}", event="odd")
    names = {"tenant": desk.endpoint.tenant, "endpoint": desk.endpoint.name}
    await desk.intake.keep_refused(refused, REFUSAL)
    kept = await desk.intake.find_delivery(**names, delivery_id="d-1")
    assert (kept.outcome, kept.reason, kept.event) == (
        DeliveryOutcome.REFUSED,
        "FIELD_INVALID",
        "odd",
    )
    assert await desk.written() == {"deliveries": 1}

    first = await desk.take("d-1", pull())
    await desk.intake.keep_refused(refused, REFUSAL)
    found = await desk.intake.find_delivery(**names, delivery_id="d-1")
    assert (found.outcome, found.intent_ids) == (DeliveryOutcome.ACCEPTED, first.intent_ids)
    assert (await desk.take("d-1", pull())).intent_ids == first.intent_ids
    assert desk.woken == [desk.endpoint.routes[0].queue]


async def test_how_long_ago_it_was_is_told_by_one_clock(desk: Desk) -> None:
    since_1970_s = await desk.intake.seconds_since(0)
    assert 0 <= await desk.intake.seconds_since(int(since_1970_s)) < 60
