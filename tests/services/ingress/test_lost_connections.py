"""The connection is lost at every statement of an intake: all was written or nothing (I2, X6)."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from fencepost.errors import DatabaseUnavailable

from services.ingress.submissions import Match
from shared.schema.grants import Service
from shared.schema.states import DeliveryOutcome
from tests.database_proxy import COMMIT, DatabaseProxy, Loss
from tests.services.ingress.desk import ONE_EACH, Desk, opened
from tests.services.ingress.pulls import pull, settings_of
from tests.waiting import until

FIRST = (b"BEGIN", b"INSERT INTO delivery_markers")
MIDDLE = (
    b"FOR UPDATE",
    b"INSERT INTO change_requests",
    b"INSERT INTO intents",
)
WITH_COMMIT = (b"INSERT INTO deliveries", COMMIT)


@pytest.fixture
async def proxy(service_url: Callable[[Service], str]) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy.before(service_url("ingress")) as proxy:
        yield proxy


@pytest.fixture
async def desk(owner_url: str, proxy: DatabaseProxy) -> AsyncIterator[Desk]:
    async with opened(owner_url, settings_of(proxy.url())) as desk:
        yield desk


@pytest.mark.guarantee("I2")
@pytest.mark.parametrize("loss", ["lose the request", "lose the answer"])
@pytest.mark.parametrize("statement", FIRST, ids=bytes.decode)
async def test_a_connection_that_was_dead_in_the_pool_is_passed_over(
    desk: Desk, proxy: DatabaseProxy, statement: bytes, loss: Loss
) -> None:
    proxy.trap(statement, loss)
    assert (await desk.take("d-1", pull())).outcome is DeliveryOutcome.ACCEPTED
    assert proxy.trapped == 1
    assert await desk.written() == ONE_EACH


@pytest.mark.guarantee("I2")
@pytest.mark.parametrize("loss", ["lose the request", "lose the answer"])
@pytest.mark.parametrize("statement", MIDDLE, ids=bytes.decode)
async def test_lost_before_the_commit_nothing_is_written_and_a_redelivery_succeeds(
    desk: Desk, proxy: DatabaseProxy, statement: bytes, loss: Loss
) -> None:
    proxy.trap(statement, loss)
    with pytest.raises(DatabaseUnavailable) as lost:
        await desk.take("d-1", pull())
    assert not lost.value.outcome_unknown
    assert await desk.written() == {}
    assert desk.woken == []
    assert (await desk.take("d-1", pull())).outcome is DeliveryOutcome.ACCEPTED
    assert proxy.trapped == 1
    assert await desk.written() == ONE_EACH


@pytest.mark.guarantee("I2", "X6")
@pytest.mark.parametrize("statement", WITH_COMMIT, ids=bytes.decode)
async def test_a_commit_that_never_arrived_is_done_again(
    desk: Desk, proxy: DatabaseProxy, statement: bytes
) -> None:
    proxy.trap(statement, "lose the request")
    taken = await desk.take("d-1", pull())
    assert (taken.outcome, proxy.trapped) == (DeliveryOutcome.ACCEPTED, 1)
    assert await desk.written() == ONE_EACH


@pytest.mark.guarantee("I2", "X6")
@pytest.mark.parametrize("statement", WITH_COMMIT, ids=bytes.decode)
async def test_a_commit_whose_answer_was_lost_is_found_by_its_delivery_id(
    desk: Desk, proxy: DatabaseProxy, statement: bytes
) -> None:
    proxy.trap(statement, "lose the answer")
    taken = await desk.take("d-1", pull())
    assert (taken.matched, taken.first_delivery_id) == (Match.DELIVERY_ID, "d-1")
    assert len(taken.intent_ids) == proxy.trapped == 1
    assert await desk.written() == ONE_EACH


@pytest.mark.guarantee("I2", "X6")
async def test_a_commit_that_cannot_be_looked_up_is_an_unknown_outcome(
    desk: Desk, proxy: DatabaseProxy
) -> None:
    proxy.trap(COMMIT, "keep the answer")
    submitting = asyncio.create_task(desk.submit("d-1", pull()))
    await until(desk.written, what="the commit")
    await proxy.cut()
    with pytest.raises(DatabaseUnavailable) as lost:
        await submitting
    assert lost.value.outcome_unknown
    await proxy.restore()
    assert (await desk.take("d-1", pull())).first_delivery_id == "d-1"
    assert await desk.written() == ONE_EACH
