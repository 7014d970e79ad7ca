"""Work goes by the rules of its queue: its tenant's, as they are when it is granted or ends."""

import pytest

from tests.rows import Rows
from tests.services.dispatcher.desk import LEASE_MS, Desk, failed, fence_of

LISTED_MS = (5_000, 25_000)


async def waits_s(rows: Rows) -> float:
    """How long the one intent that waits does so."""
    row = await rows.one("waiting")
    wait: float = (row["due_at"] - row["since"]).total_seconds()
    return wait


@pytest.mark.parametrize(("attempts", "wait_s"), [(1, 5), (2, 25), (3, 25)])
async def test_a_retry_waits_as_its_queue_says(desk: Desk, attempts: int, wait_s: int) -> None:
    await desk.put_queue(retries_max=5, retry_delays_ms=LISTED_MS)
    await desk.settle(await desk.running(attempts=attempts), failed())
    assert await waits_s(desk.rows) == pytest.approx(wait_s, abs=1)


async def test_a_retry_is_not_always_shortened_alike(desk: Desk) -> None:
    await desk.put_queue(retries_max=5, retry_delays_ms=(80_000_000,), retry_jitter_percent=100)
    for _ in range(5):
        await desk.settle(await desk.running(), failed())
    rows = await desk.rows.all("waiting")
    waits = {round((row["due_at"] - row["since"]).total_seconds()) for row in rows}
    assert len(waits) > 1
    assert max(waits) <= 80_001


async def test_a_failure_that_names_its_wait_waits_that_long(desk: Desk) -> None:
    await desk.put_queue()
    await desk.settle(await desk.running(), failed(retry_after_ms=45_000))
    assert await waits_s(desk.rows) == pytest.approx(45, abs=1)


async def test_attempts_are_those_of_the_queue(desk: Desk) -> None:
    await desk.put_queue(retries_max=1)
    work = await desk.running(attempts=2)
    await desk.settle(work, failed())
    intent = await desk.intent(work)
    assert intent["status"] == "dead"
    assert "2 are allowed" in intent["reason"]


async def test_no_queue_allows_more_attempts_than_the_dispatcher(desk: Desk) -> None:
    await desk.put_queue(retries_max=100)
    work = await desk.running(attempts=desk.settings.attempts_max)
    await desk.settle(work, failed())
    assert (await desk.intent(work))["status"] == "dead"


async def test_a_lease_that_ran_out_counts_against_its_queue(desk: Desk) -> None:
    await desk.put_queue(retries_max=1)
    back = await desk.running(attempts=1, claimable_in_ms=-1000)
    spent = await desk.running(attempts=2, claimable_in_ms=-1000)
    await desk.expire()
    assert (await desk.place(back), await desk.place(spent)) == ("open ready leases", "dead leases")
    assert "2 attempts are allowed" in (await desk.intent(spent))["reason"]


async def test_a_lease_holds_as_long_as_its_queue_says(desk: Desk) -> None:
    await desk.put_queue(lease_ms=120_000)
    declared, other = await desk.ready(), await desk.ready(queue="slow")
    grants = await desk.grant(queues=["reviews", "slow"])
    by_intent = {grant.intent.intent_id: grant.lease_ms for grant in grants}
    assert by_intent == {declared.intent_id: 120_000, other.intent_id: LEASE_MS}
    for work, lease_ms in ((declared, 120_000), (other, LEASE_MS)):
        lease = await desk.lease(work)
        assert lease["lease_ms"] == lease_ms
        held_s = (lease["claimable_at"] - lease["granted_at"]).total_seconds()
        assert held_s == pytest.approx(lease_ms / 1000, abs=1)


@pytest.mark.guarantee("X8")
async def test_another_tenants_queue_of_the_same_name_changes_nothing(desk: Desk) -> None:
    await desk.put_queue(tenant="globex", retries_max=0)
    await desk.ready()
    [grant] = await desk.grant()
    assert grant.lease_ms == LEASE_MS
    await desk.settle(await desk.running(attempts=2), failed())
    assert await waits_s(desk.rows) == pytest.approx(desk.settings.retry_delay_ms / 1000, abs=1)


async def test_nothing_of_a_paused_queue_is_granted_until_it_is_resumed(desk: Desk) -> None:
    await desk.put_queue()
    held = await desk.ready()
    stream = await desk.stream()
    [grant] = await desk.grant(stream)
    await desk.pause()
    waits, other = await desk.ready(), await desk.ready(queue="slow")
    grants = await desk.grant(queues=["reviews", "slow"])
    assert [each.intent.intent_id for each in grants] == [other.intent_id]
    assert await desk.place(waits) == "open ready"
    [renewed] = await desk.dispatching.renew("acme", [fence_of(grant, holder=stream.session_id)])
    assert renewed.refusal is None
    assert (await desk.lease(held))["state"] == "running"
    await desk.resume()
    [grant] = await desk.grant()
    assert grant.intent.intent_id == waits.intent_id


@pytest.mark.guarantee("X8")
async def test_a_pause_is_for_one_tenant(desk: Desk) -> None:
    await desk.put_queue()
    await desk.put_queue(tenant="globex")
    await desk.pause(tenant="globex")
    await desk.ready()
    assert len(await desk.grant()) == 1
