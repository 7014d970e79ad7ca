"""Only the holder settles, renews and reads: the refused change nothing, nor do repeats."""

from typing import Any

import pytest
from fencepost.errors import CheckpointRequired, LeaseLost, OutcomeConflict, ResourceNotFound

from services.dispatcher.dispatch.fences_store import Fence
from services.dispatcher.dispatch.settle_operations import Outcome
from shared.schema.states import Disposition
from tests.rows import from_now
from tests.services.dispatcher.desk import (
    OUTCOMES,
    WRONG_FENCES,
    Desk,
    completed,
    failed,
    fence_of,
    released,
    settlement,
    span,
)


@pytest.mark.guarantee("Q8")
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
async def test_the_same_outcome_again_returns_the_stored_one_and_writes_nothing(
    desk: Desk, outcome: Outcome
) -> None:
    work = await desk.running()
    assert not (await desk.settle(work, outcome)).repeated
    before = await desk.everything()
    again = await desk.settle(work, outcome)
    assert (again.repeated, again.refusal) == (True, None)
    assert await desk.everything() == before


@pytest.mark.guarantee("Q8")
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
async def test_another_outcome_is_refused(desk: Desk, outcome: Outcome) -> None:
    work = await desk.running()
    await desk.settle(work, completed(result=b"first"))
    before = await desk.everything()
    answer = await desk.settle(work, outcome)
    assert isinstance(answer.refusal, OutcomeConflict)
    assert (answer.refusal.intent_id, answer.refusal.stored) == (work.intent_id, "completed")
    assert await desk.everything() == before


@pytest.mark.guarantee("Q8")
async def test_a_stored_outcome_is_returned_though_another_holds_the_lease_now(
    desk: Desk,
) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    [grant] = await desk.grant(stream)
    item = settlement(
        fence_of(grant, holder=stream.session_id),
        failed(Disposition.TRANSIENT, retry_after_ms=0),
    )
    await desk.dispatching.settle("acme", [item])
    await desk.move()
    await desk.grant()
    assert (await desk.lease(work))["epoch"] == 2
    before = await desk.everything()
    [again] = await desk.dispatching.settle("acme", [item])
    assert (again.repeated, again.refusal) == (True, None)
    assert await desk.everything() == before


@pytest.mark.guarantee("Q8")
async def test_outcomes_repeated_within_one_list_count_once(desk: Desk) -> None:
    work = await desk.running()
    fence = fence_of(work)
    items = [settlement(fence, outcome) for outcome in (completed(), completed(), released())]
    first, second, third = await desk.dispatching.settle("acme", items)
    assert (first.refusal, first.repeated) == (None, False)
    assert (second.refusal, second.repeated) == (None, True)
    assert isinstance(third.refusal, OutcomeConflict)
    assert len(await desk.rows.all("dispatches")) == 1


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize("wrong", WRONG_FENCES, ids=str)
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
async def test_only_the_holder_settles(desk: Desk, outcome: Outcome, wrong: dict[str, Any]) -> None:
    work = await desk.running()
    before = await desk.everything()
    item = settlement(fence_of(work, **wrong), outcome, spans=[span(work)])
    [answer] = await desk.dispatching.settle("acme", [item])
    assert isinstance(answer.refusal, LeaseLost)
    assert await desk.everything() == before


@pytest.mark.guarantee("L3", "X8")
async def test_another_tenant_with_the_same_fence_settles_nothing(desk: Desk) -> None:
    work = await desk.running()
    [answer] = await desk.dispatching.settle("theirs", [settlement(fence_of(work), completed())])
    assert isinstance(answer.refusal, LeaseLost)
    assert (await desk.lease(work))["state"] == "running"


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize("state", ["free", "succeeded", "superseded", "abandoned", "dead"])
async def test_only_a_running_lease_is_settled_or_renewed(desk: Desk, state: str) -> None:
    work = await desk.running()
    await desk.rows.change("leases", {"key": work.key}, state=state, settled_at=from_now(0))
    before = await desk.everything()
    assert isinstance((await desk.settle(work, completed())).refusal, LeaseLost)
    [renewed] = await desk.dispatching.renew("acme", [fence_of(work)])
    assert isinstance(renewed.refusal, LeaseLost)
    assert await desk.everything() == before


@pytest.mark.guarantee("L2", "L3")
async def test_a_holder_whose_lease_ran_out_has_lost_it_and_no_stored_outcome(desk: Desk) -> None:
    work = await desk.running(claimable_in_ms=-1)
    await desk.expire()
    assert isinstance((await desk.settle(work, completed())).refusal, LeaseLost)


@pytest.mark.guarantee("L3")
async def test_a_late_holder_that_nobody_replaced_may_settle_and_renew(desk: Desk) -> None:
    work = await desk.running(claimable_in_ms=-60_000)
    [renewed] = await desk.dispatching.renew("acme", [fence_of(work)])
    assert renewed.refusal is None
    other = await desk.running(claimable_in_ms=-60_000)
    assert (await desk.settle(other, completed())).refusal is None


@pytest.mark.guarantee("C4")
async def test_success_is_refused_before_the_final_flush_and_the_lease_goes_on(
    desk: Desk,
) -> None:
    work = await desk.rows.run(await desk.running(), version=2)
    before = await desk.everything()
    answer = await desk.settle(work, completed(version=2))
    assert isinstance(answer.refusal, CheckpointRequired)
    assert (answer.refusal.wanted_version, answer.refusal.latest_version) == (2, 2)
    assert await desk.everything() == before
    await desk.flush(work, based_on_version=2, final=True)
    assert (await desk.settle(work, completed(version=3))).refusal is None


@pytest.mark.guarantee("C4")
@pytest.mark.parametrize("claimed", [0, 1, 3])
async def test_success_names_the_final_flush(desk: Desk, claimed: int) -> None:
    work = await desk.rows.run(await desk.running(), version=2, final=True)
    answer = await desk.settle(work, completed(version=claimed))
    assert isinstance(answer.refusal, CheckpointRequired)
    assert (await desk.settle(work, completed(version=2))).refusal is None


@pytest.mark.guarantee("C4")
async def test_success_without_any_flush_may_not_claim_one(desk: Desk) -> None:
    work = await desk.running()
    assert isinstance((await desk.settle(work, completed(version=1))).refusal, CheckpointRequired)
    assert (await desk.settle(work, completed())).refusal is None


async def test_one_refused_outcome_never_fails_its_neighbours(desk: Desk) -> None:
    works = [await desk.running() for _ in range(4)]
    gone, unflushed, settled_before, good = works
    await desk.rows.takeover(gone)
    await desk.rows.run(unflushed)
    await desk.settle(settled_before, released())
    items = [settlement(fence_of(work), completed(version=0)) for work in works]
    answers = await desk.dispatching.settle("acme", items)
    assert [type(answer.refusal) for answer in answers] == [
        LeaseLost,
        CheckpointRequired,
        OutcomeConflict,
        type(None),
    ]
    states = [(await desk.lease(work))["state"] for work in works]
    assert states == ["running", "running", "free", "succeeded"]
    assert (await desk.intent(good))["status"] == "succeeded"


async def test_a_renewal_moves_the_lease_from_now(desk: Desk) -> None:
    work = await desk.running(claimable_in_ms=60_000, lease_ms=120_000)
    before = await desk.lease(work)
    [renewed] = await desk.dispatching.renew("acme", [fence_of(work)])
    assert (renewed.refusal, renewed.lease_ms) == (None, 120_000)
    after = await desk.lease(work)
    assert (after["claimable_at"] - after["renewed_at"]).total_seconds() == pytest.approx(
        120, abs=1
    )
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"renewed_at", "claimable_at"}


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize("wrong", WRONG_FENCES, ids=str)
async def test_a_renewal_by_another_is_refused_alone(desk: Desk, wrong: dict[str, Any]) -> None:
    works = [await desk.running(claimable_in_ms=60_000) for _ in range(3)]
    fences = [fence_of(work) for work in works]
    bad: list[Fence] = [fence_of(works[1], **wrong)]
    before = await desk.lease(works[1])
    answers = await desk.dispatching.renew("acme", [fences[0], *bad, fences[2]])
    assert [type(answer.refusal) for answer in answers] == [type(None), LeaseLost, type(None)]
    assert await desk.lease(works[1]) == before


@pytest.mark.guarantee("L3")
async def test_a_wrong_intent_beside_the_right_one_is_told_apart(desk: Desk) -> None:
    work = await desk.running()
    right, wrong = fence_of(work), fence_of(work, intent_id=4711)
    answers = await desk.dispatching.renew("acme", [right, wrong])
    assert [type(answer.refusal) for answer in answers] == [type(None), LeaseLost]


@pytest.mark.guarantee("L3", "X8")
async def test_a_payload_is_for_the_holder_alone(desk: Desk) -> None:
    work = await desk.running()
    assert await desk.dispatching.fetch_payload("acme", fence_of(work)) == b"{}"
    for tenant, fence in [("theirs", fence_of(work)), ("acme", fence_of(work, epoch=2))]:
        with pytest.raises(LeaseLost):
            await desk.dispatching.fetch_payload(tenant, fence)


async def test_a_payload_that_is_gone_is_not_found(desk: Desk) -> None:
    work = await desk.rows.lease(await desk.rows.intent(delivery_seq=4711))
    with pytest.raises(ResourceNotFound):
        await desk.dispatching.fetch_payload("acme", fence_of(work))
