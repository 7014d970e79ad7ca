"""What is done under a fence against takeovers, repeats and the expiry: each race is forced."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from fencepost.errors import LeaseLost, OutcomeConflict

from services.dispatcher.dispatch.operations import RenewAnswer
from services.dispatcher.dispatch.settle_operations import SettleAnswer
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.rows import Work
from tests.services.dispatcher.desk import (
    OUTCOMES,
    Desk,
    completed,
    failed,
    fence_of,
    opened,
    released,
    span,
)

LOCK_LEASE = "SELECT 1 FROM fencepost.leases WHERE key = %(key)s FOR UPDATE"
LOCK_INTENT = "SELECT 1 FROM fencepost.intents WHERE intent_id = %(intent_id)s FOR UPDATE"
TAKE_OVER = """
    UPDATE fencepost.leases SET holder = 'holder-2', epoch = epoch + 1, intent_id = 4711
    WHERE key = %(key)s
"""
RUN_OUT = """
    UPDATE fencepost.leases SET state = 'free', settled_at = clock_timestamp() WHERE key = %(key)s
"""
UNDER_A_FENCE = ["renew", *[f"settle {n}" for n in range(len(OUTCOMES))], "flush", "load", "fetch"]


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


def fenced(desk: Desk, call: str, work: Work) -> Coroutine[Any, Any, object]:
    """One call under the fence of this work."""
    match call.split():
        case ["renew"]:
            return desk.dispatching.renew("acme", [fence_of(work)])
        case ["settle", number]:
            return desk.settle(work, OUTCOMES[int(number)], spans=[span(work)])
        case ["flush"]:
            return desk.flush(work, [span(work)])
        case ["load"]:
            return desk.checkpoints.load("acme", fence_of(work))
        case _:
            return desk.dispatching.fetch_payload("acme", fence_of(work))


def refusal_in(outcome: object) -> object:
    """The refusal, whether it was raised or is one of the answers."""
    match outcome:
        case [RenewAnswer(refusal=refusal)] | SettleAnswer(refusal=refusal):
            return refusal
        case _:
            return outcome


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize("loss", [TAKE_OVER, RUN_OUT], ids=["taken over", "run out"])
@pytest.mark.parametrize("call", UNDER_A_FENCE)
async def test_a_loss_that_commits_while_a_call_waits_refuses_it(
    desk: Desk, blocker: Blocker, call: str, loss: Any
) -> None:
    work = await desk.running()
    before = await desk.everything()
    await blocker.hold(loss, key=work.key)
    [outcome] = await forced(
        blocker, [fenced(desk, call, work)], on="leases", release=blocker.commit
    )
    assert isinstance(refusal_in(outcome), LeaseLost)
    lease = await desk.lease(work)
    assert lease["holder"] == ("holder-2" if loss is TAKE_OVER else "holder-1")
    leases = 3
    after = await desk.everything()
    assert after[:leases] + after[leases + 1 :] == before[:leases] + before[leases + 1 :]


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize("call", UNDER_A_FENCE)
async def test_a_loss_that_is_rolled_back_refuses_nothing(
    desk: Desk, blocker: Blocker, call: str
) -> None:
    work = await desk.running()
    await blocker.hold(TAKE_OVER, key=work.key)
    [outcome] = await forced(
        blocker, [fenced(desk, call, work)], on="leases", release=blocker.roll_back
    )
    assert not isinstance(refusal_in(outcome), Exception)


@pytest.mark.guarantee("L3", "L1")
async def test_a_takeover_waits_until_a_flush_is_committed_and_goes_on_from_it(
    desk: Desk, blocker: Blocker
) -> None:
    late = await desk.running(claimable_in_ms=-1000)
    await desk.rival(late)
    await blocker.hold(
        "INSERT INTO fencepost.runs (tenant, key, action, generation, intent_id, epoch, version, "
        "flush_id, state, state_schema_version, analysis_status) VALUES (%(tenant)s, %(key)s, "
        "%(action)s, %(generation)s, 1, 1, 1, 'x', '', 1, 'unknown')",
        **{name: getattr(late, name) for name in ("tenant", "key", "action", "generation")},
    )
    flushing = asyncio.create_task(desk.flush(late))
    await blocker.seen_waiting(1, on="runs")
    taking_over = asyncio.create_task(desk.grant())
    await blocker.seen_waiting(2, on="leases")
    await blocker.roll_back()
    assert (await flushing).version == 1
    [grant] = await taking_over
    assert (grant.epoch, grant.load.checkpoint_version) == (2, 1)
    with pytest.raises(LeaseLost):
        await desk.flush(late, based_on_version=1)


@pytest.mark.guarantee("L3", "L1", "L5")
async def test_a_takeover_waits_until_an_outcome_is_committed_and_is_settled_by_it(
    desk: Desk, blocker: Blocker
) -> None:
    late = await desk.running(claimable_in_ms=-1000)
    rival = await desk.rival(late)
    await blocker.hold(LOCK_INTENT, intent_id=late.intent_id)
    settling = asyncio.create_task(desk.settle(late, completed(result=b"mine")))
    await blocker.seen_waiting(1, on="intents")
    taking_over = asyncio.create_task(desk.grant())
    await blocker.seen_waiting(2, on="leases")
    await blocker.roll_back()
    assert (await settling).refusal is None
    assert await taking_over == []
    assert (await desk.intent(late))["result"] == b"mine"
    assert (await desk.intent(rival))["status"] == "duplicate"


@pytest.mark.guarantee("L1", "L2")
async def test_a_holder_that_fails_while_a_takeover_waits_is_not_displaced_too(
    desk: Desk, blocker: Blocker
) -> None:
    late = await desk.running(claimable_in_ms=-1000)
    rival = await desk.rival(late)
    await blocker.hold(
        "INSERT INTO fencepost.waiting (intent_id, tenant, queue, priority, key, action, attempts, "
        "waits_on, due_at) VALUES (%(intent_id)s, 'x', 'x', 0, 'x', 'x', 0, 'time', 'infinity')",
        intent_id=late.intent_id,
    )
    settling = asyncio.create_task(desk.settle(late, failed()))
    await blocker.seen_waiting(1, on="waiting")
    taking_over = asyncio.create_task(desk.grant())
    await blocker.seen_waiting(2, on="leases")
    await blocker.roll_back()
    assert (await settling).refusal is None
    [grant] = await taking_over
    assert (grant.intent.intent_id, grant.epoch) == (rival.intent_id, 2)
    assert [row["outcome"] for row in await desk.rows.all("dispatches")] == ["failed"]
    assert await desk.place(late) == "open waiting"


@pytest.mark.guarantee("Q8")
@pytest.mark.parametrize("number", range(len(OUTCOMES)))
async def test_one_outcome_sent_twice_at_once_is_recorded_once(
    desk: Desk, blocker: Blocker, number: int
) -> None:
    work = await desk.running()
    await blocker.hold(LOCK_LEASE, key=work.key)
    outcomes = await forced(
        blocker,
        [desk.settle(work, OUTCOMES[number], spans=[span(work)]) for _ in range(2)],
        on="leases",
        release=blocker.roll_back,
    )
    answers = [answer for answer in outcomes if isinstance(answer, SettleAnswer)]
    assert sorted((answer.repeated, answer.refusal) for answer in answers) == [
        (False, None),
        (True, None),
    ]
    assert len(await desk.rows.all("dispatches")) == 1
    assert len(await desk.rows.all("waiting")) <= 1


@pytest.mark.guarantee("Q8")
async def test_of_two_outcomes_at_once_the_first_stands_and_the_other_is_refused(
    desk: Desk, blocker: Blocker
) -> None:
    work = await desk.running()
    await blocker.hold(LOCK_LEASE, key=work.key)
    outcomes = await forced(
        blocker,
        [desk.settle(work, outcome) for outcome in (completed(), failed(), released())],
        on="leases",
        release=blocker.roll_back,
    )
    refusals = [refusal_in(outcome) for outcome in outcomes]
    assert refusals.count(None) == 1
    assert sum(isinstance(refusal, OutcomeConflict) for refusal in refusals) == 2
    assert len(await desk.rows.all("dispatches")) == 1


@pytest.mark.guarantee("L2", "L3")
async def test_the_expiry_leaves_a_lease_alone_that_another_transaction_holds(
    desk: Desk, blocker: Blocker
) -> None:
    held, free = [await desk.running(claimable_in_ms=-1000) for _ in range(2)]
    await blocker.hold(LOCK_LEASE, key=held.key)
    await desk.expire()
    assert await desk.place(held) == "open leases"
    assert (await desk.lease(held))["state"] == "running"
    assert (await desk.lease(free))["state"] == "free"
