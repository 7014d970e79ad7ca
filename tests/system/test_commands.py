"""A command from the delivery to the grant: ingress stores it, the dispatcher names its head."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from services.dispatcher.housekeeping.resolve_operations import HeadResolver
from services.ingress.submissions import Match
from shared.schema.grants import Service
from shared.schema.states import DeliveryOutcome
from tests.services.dispatcher import desk as dispatcher
from tests.services.dispatcher.housekeeping.test_resolve import FOUND, Publisher
from tests.services.ingress import desk as ingress
from tests.services.ingress.intake.asking import REVIEW, Asking, command
from tests.services.ingress.pulls import NUMBER, REPO_ID, TENANT, A, B, pull, settings_of

KEY = f"github.com/{REPO_ID}#{NUMBER}@{B}:manual-9"


@pytest.fixture
async def asking(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Asking]:
    async with ingress.opened(owner_url, settings_of(service_url("ingress"))) as desk:
        yield Asking.at(desk, routes=(REVIEW,))


@pytest.fixture
async def desk(
    owner_url: str, service_url: Callable[[Service], str]
) -> AsyncIterator[dispatcher.Desk]:
    async with dispatcher.opened(owner_url, service_url("dispatcher")) as desk:
        yield replace(desk, rows=replace(desk.rows, tenant=TENANT))


@pytest.mark.guarantee("I6", "I7")
@pytest.mark.parametrize("told", [True, False], ids=["known", "unknown"])
async def test_a_command_is_granted_at_the_head_that_the_forge_has_and_stays_itself_after_a_push(
    asking: Asking, desk: dispatcher.Desk, told: bool
) -> None:
    if told:
        await desk.rows.change_request(repo_id=REPO_ID, number=NUMBER, head_sha=A)
    taken = await asking.take("d-1", command())
    assert await desk.grant() == []
    publisher = Publisher([replace(FOUND, head_sha=B)])
    await HeadResolver(desk.database, desk.wakeups, publisher.ask, desk.settings).tick()
    [grant] = await desk.grant()
    assert (grant.key, grant.intent.intent_id) == (KEY, *taken.intent_ids)
    again = await asking.take("d-2", command())
    assert (again.outcome, again.matched) == (DeliveryOutcome.DUPLICATE, Match.KEY)
    assert again.intent_ids == taken.intent_ids


@pytest.mark.guarantee("I7", "I9")
async def test_a_command_on_what_is_closed_meanwhile_is_never_granted(
    asking: Asking, desk: dispatcher.Desk
) -> None:
    await asking.tell("d-1", pull())
    taken = await asking.take("d-2", command())
    await asking.tell("d-3", pull("closed", at=5))
    publisher = Publisher([FOUND])
    await HeadResolver(desk.database, desk.wakeups, publisher.ask, desk.settings).tick()
    intent = await desk.rows.one("intents", intent_id=taken.intent_ids[0])
    assert (intent["status"], intent["head_sha"]) == ("abandoned", None)
    assert await desk.rows.all("ready", intent_id=intent["intent_id"]) == []
