"""A newer head against grants and outcomes of the older one: each race is forced (I9, L1, L3)."""

from collections.abc import AsyncIterator, Callable

import pytest
from fencepost.errors import LeaseLost

from services.dispatcher.dispatch.settle_operations import SettleAnswer
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.rows import Work
from tests.services.dispatcher import desk as dispatcher
from tests.services.dispatcher.desk import completed, fence_of
from tests.services.ingress import desk as ingress
from tests.services.ingress.pulls import NUMBER, REPO_ID, TENANT, A, B, pull, settings_of

PUSH = pull("synchronize", before=A, head_sha=B, at=1)


@pytest.fixture
async def intake(
    owner_url: str, service_url: Callable[[Service], str]
) -> AsyncIterator[ingress.Desk]:
    async with ingress.opened(owner_url, settings_of(service_url("ingress"))) as desk:
        yield desk


@pytest.fixture
async def desk(
    owner_url: str, service_url: Callable[[Service], str]
) -> AsyncIterator[dispatcher.Desk]:
    async with dispatcher.opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


async def older(desk: dispatcher.Desk) -> Work:
    """Open work on the head that a push is about to replace."""
    pr = await desk.rows.change_request(tenant=TENANT, repo_id=REPO_ID, number=NUMBER, head_sha=A)
    return await desk.rows.intent(pr)


@pytest.mark.guarantee("I9", "L1")
@pytest.mark.parametrize("pushed_first", [True, False], ids=["push first", "grant first"])
async def test_a_grant_and_a_push_leave_nothing_running_on_the_older_head(
    intake: ingress.Desk, desk: dispatcher.Desk, blocker: Blocker, pushed_first: bool
) -> None:
    work = await older(desk)
    await desk.rows.ready(work)
    stream = await desk.stream()
    await blocker.hold("SELECT 1 FROM fencepost.change_requests FOR UPDATE")
    contenders = [intake.take("d-1", PUSH), desk.grant(stream)]
    outcomes = await forced(
        blocker,
        contenders if pushed_first else contenders[::-1],
        on="change_requests",
        release=blocker.roll_back,
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert (await desk.intent(work))["status"] == "superseded"
    running = [row["generation"] for row in await desk.rows.all("leases", state="running")]
    assert running in ([], [2])


@pytest.mark.guarantee("I9", "L1")
async def test_a_grant_that_waited_for_a_push_discards_what_it_picked(
    intake: ingress.Desk, desk: dispatcher.Desk
) -> None:
    work = await older(desk)
    await desk.rows.ready(work)
    await intake.take("d-1", PUSH)
    [granted] = await desk.grant()
    assert (granted.intent.generation, granted.intent.head_sha) == (2, B)
    assert await desk.rows.all("ready") == []
    assert await desk.place(work) == "superseded"


@pytest.mark.guarantee("I9", "L3")
async def test_whoever_works_on_the_older_head_is_fenced(
    intake: ingress.Desk, desk: dispatcher.Desk
) -> None:
    work = await desk.rows.lease(await older(desk))
    await intake.take("d-1", PUSH)
    [renewed] = await desk.dispatching.renew(TENANT, [fence_of(work)])
    assert isinstance(renewed.refusal, LeaseLost)
    assert isinstance((await desk.settle(work, completed())).refusal, LeaseLost)
    with pytest.raises(LeaseLost):
        await desk.flush(work)
    assert (await desk.lease(work))["state"] == "superseded"


@pytest.mark.guarantee("I9", "X7")
async def test_an_outcome_and_a_push_are_settled_one_after_the_other(
    intake: ingress.Desk, desk: dispatcher.Desk, blocker: Blocker
) -> None:
    work = await desk.rows.lease(await older(desk))
    await blocker.hold("SELECT 1 FROM fencepost.leases FOR UPDATE")
    settled, pushed = await forced(
        blocker,
        [desk.settle(work, completed()), intake.take("d-1", PUSH)],
        on="leases",
        release=blocker.roll_back,
    )
    assert not isinstance(pushed, BaseException), pushed
    assert isinstance(settled, SettleAnswer)
    state = (await desk.lease(work))["state"]
    assert (state, (await desk.intent(work))["status"]) in (
        [("superseded", "superseded")] if settled.refusal else [("succeeded", "succeeded")]
    )
    assert len(await desk.rows.all("dispatches")) == 1
