"""Dead work whose delivery comes again is tried again, by one new intent (I14)."""

import pytest

from services.ingress.submissions import Match
from shared.schema.states import DeliveryOutcome
from tests.rows import NOW, Row
from tests.services.ingress.desk import Desk
from tests.services.ingress.intake.asking import Asking, command
from tests.services.ingress.pulls import pull

DUPLICATE = DeliveryOutcome.DUPLICATE
LIKE_THE_DEAD = (
    "tenant",
    "queue",
    "priority",
    "key",
    "key_label",
    "action",
    "generation",
    "repo_id",
    "number",
    "head_sha",
    "suffix",
    "delivery_seq",
    "content_type",
    "traceparent",
)


async def bury(desk: Desk, intent_id: int) -> Row:
    """What the dispatcher does with an intent that is not tried again."""
    ended = {"status": "dead", "settled_at": NOW, "reason": "it broke", "attempts": 3}
    await desk.rows.change("intents", {"intent_id": intent_id}, **ended)
    await desk.rows.connection.execute("DELETE FROM fencepost.ready")
    dead = await desk.rows.one("intents", intent_id=intent_id)
    carried = ("intent_id", "tenant", "queue", "key", "key_label", "action", "generation")
    told = {name: dead[name] for name in (*carried, "attempts", "reason")}
    await desk.rows.insert("dead_letters", **told)
    return dead


@pytest.mark.guarantee("I14")
@pytest.mark.parametrize(("again", "matched"), [("d-1", Match.DELIVERY_ID), ("d-2", Match.BODY)])
async def test_a_redelivery_of_dead_work_makes_one_new_intent(
    desk: Desk, again: str, matched: Match
) -> None:
    first = await desk.take("d-1", pull(), dedupes_by_body=True)
    dead = await bury(desk, first.intent_ids[0])
    desk.woken.clear()
    second = await desk.take(again, pull(), dedupes_by_body=True)
    assert (second.outcome, second.matched, second.first_delivery_id) == (DUPLICATE, matched, "d-1")
    [new_id] = second.intent_ids
    new = await desk.rows.one("intents", intent_id=new_id)
    assert (new["status"], new["attempts"]) == ("open", 0)
    assert {name: new[name] for name in LIKE_THE_DEAD} == {
        name: dead[name] for name in LIKE_THE_DEAD
    }
    old = await desk.rows.one("intents", intent_id=dead["intent_id"])
    assert (old["status"], old["settled_by"], old["reason"]) == ("redriven", new_id, "it broke")
    letter = await desk.rows.one("dead_letters")
    assert (letter["redriven_as"], letter["redriven_at"] is None) == (new_id, False)
    assert (await desk.rows.one("ready"))["intent_id"] == new_id
    assert desk.woken == ["reviews"]


@pytest.mark.guarantee("I14")
async def test_more_redeliveries_are_told_of_the_same_intent(desk: Desk) -> None:
    first = await desk.take("d-1", pull())
    await bury(desk, first.intent_ids[0])
    again = [await desk.take("d-1", pull()) for _ in range(3)]
    assert len({each.intent_ids for each in again}) == 1
    await bury(desk, again[0].intent_ids[0])
    once_more = await desk.take("d-1", pull())
    statuses = [(row["status"]) for row in await desk.rows.all("intents")]
    assert sorted(statuses) == ["open", "redriven", "redriven"]
    assert once_more.intent_ids > again[0].intent_ids
    assert len(await desk.rows.all("deliveries")) == 1


@pytest.mark.guarantee("I14")
async def test_dead_work_whose_key_another_delivery_occupies_stays_dead(desk: Desk) -> None:
    first = await desk.take("d-1", pull())
    await bury(desk, first.intent_ids[0])
    await desk.take("d-2", pull("ready_for_review", at=1))
    again = await desk.take("d-1", pull())
    assert again.intent_ids == first.intent_ids
    assert sorted(row["status"] for row in await desk.rows.all("intents")) == ["dead", "open"]


@pytest.mark.guarantee("I14", "I7")
async def test_a_command_that_died_without_its_head_waits_for_it_again(desk: Desk) -> None:
    asking = Asking.at(desk, routes=(Asking.at(desk).endpoint.routes[0],))
    first = await asking.take("d-1", command())
    await bury(desk, first.intent_ids[0])
    await desk.rows.connection.execute("DELETE FROM fencepost.waiting")
    again = await asking.take("d-1", command())
    assert again.intent_ids != first.intent_ids
    waiting = await desk.rows.one("waiting")
    assert (waiting["intent_id"], waiting["waits_on"]) == (again.intent_ids[0], "head")
    assert await desk.rows.all("ready") == []
