"""One look wakes whoever has something to do, and nobody else."""

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from services.dispatcher.housekeeping.look_operations import Duties, Lookout
from tests.rows import Rows, from_now
from tests.services.dispatcher.desk import Desk, span


async def woken(desk: Desk, *listeners: tuple[str, str]) -> set[Any]:
    """Who was woken by one look: duties by name, and sessions by tenant and queue."""
    heard: set[Any] = set()
    events = {listener: asyncio.Event() for listener in listeners}
    duties = Duties(
        move=lambda: heard.add("mover"),
        resolve=lambda: heard.add("resolver"),
        expire=lambda: heard.add("expirer"),
        export=lambda: heard.add("exporter"),
    )
    lookout = Lookout(desk.database, desk.wakeups, duties)
    with ExitStack() as stack:
        for (tenant, queue), event in events.items():
            stack.enter_context(desk.wakeups.listening(tenant, [queue], event))
        await lookout.tick()
    return heard | {listener for listener, event in events.items() if event.is_set()}


async def test_without_anything_to_do_nobody_is_woken(desk: Desk) -> None:
    await desk.running()
    await desk.rows.waiting(await desk.rows.intent())
    assert await woken(desk) == set()
    assert await woken(desk, ("acme", "reviews")) == set()


async def test_who_listens_to_a_lane_with_work_is_woken(desk: Desk) -> None:
    theirs = Rows(desk.rows.connection, tenant="theirs")
    await desk.ready(queue="b", priority=-5)
    await theirs.ready(await theirs.intent(queue="a"))
    lanes = [("acme", "a"), ("acme", "b"), ("theirs", "a"), ("theirs", "b")]
    assert await woken(desk, *lanes) == {("acme", "b"), ("theirs", "a")}


async def test_what_is_due_wakes_the_mover(desk: Desk) -> None:
    await desk.rows.waiting(await desk.rows.intent(), due_in_ms=-1)
    assert await woken(desk, ("acme", "reviews")) == {"mover"}


@pytest.mark.guarantee("I7")
async def test_work_without_its_head_wakes_the_resolver_alone(desk: Desk) -> None:
    await desk.rows.waiting(await desk.rows.intent(), waits_on="head", due_in_ms=60_000)
    assert await woken(desk) == set()
    await desk.rows.waiting(await desk.rows.intent(), waits_on="head", due_in_ms=-1)
    assert await woken(desk, ("acme", "reviews")) == {"resolver"}


@pytest.mark.guarantee("P2")
@pytest.mark.parametrize(
    ("status", "expected"),
    [("running", set()), ("uncertain", set()), ("succeeded", {"mover"}), ("refused", {"mover"})],
)
async def test_a_settled_publication_wakes_the_mover(
    desk: Desk, status: str, expected: set[str]
) -> None:
    work = await desk.rows.intent()
    publication = await desk.rows.publication(work)
    await desk.rows.attempt(publication, status=status)
    parked = {"waits_on": "publication", "publication_id": publication["publication_id"]}
    await desk.rows.waiting(work, **parked)
    assert await woken(desk) == expected


async def test_a_lease_past_its_time_wakes_the_expirer(desk: Desk) -> None:
    await desk.running(claimable_in_ms=-1)
    assert await woken(desk) == {"expirer"}


@pytest.mark.guarantee("C7")
async def test_a_span_that_is_not_exported_wakes_the_exporter(desk: Desk) -> None:
    work = await desk.running()
    await desk.flush(work, [span(work)])
    assert await woken(desk) == {"exporter"}
    await desk.rows.change("run_spans", {"intent_id": work.intent_id}, exported_at=from_now(0))
    assert await woken(desk) == set()
