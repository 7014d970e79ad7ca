"""Goal: every list of the dispatcher is locked in one order, whatever order it came in (X7).

Method: the test is the other transaction. It holds the first row, sees the dispatcher wait for it
with a list in which the second comes first, and takes the second: were that one locked by now,
each would wait for the other.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, LiteralString

import pytest

from shared.metrics import DATABASE_CONFLICTS
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.rows import Work
from tests.services.dispatcher.desk import Desk, completed, fence_of, opened, settlement, span

LONG_AGO = "2026-01-01T00:00:00Z"

LEASE = "SELECT FROM fencepost.leases WHERE key = %(key)s FOR UPDATE"
CHANGE_REQUEST = "SELECT FROM fencepost.change_requests WHERE repo_id = %(repo_id)s FOR UPDATE"
INTENT = "SELECT FROM fencepost.intents WHERE intent_id = %(intent_id)s FOR UPDATE"
NEW_LEASE = """
    INSERT INTO fencepost.leases (tenant, key, action, generation, state, epoch, holder, intent_id,
        queue, priority, attempts, grant_id, lease_ms, granted_at, renewed_at, claimable_at)
    VALUES ('acme', %(key)s, 'container-dispatch', 1, 'running', 1, 'other', 4711, 'reviews', 0, 1,
        'g', 60000, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 minute')
"""
SPAN = """
    INSERT INTO fencepost.run_spans (tenant, intent_id, trace_id, span_id, service_name, otlp_span)
    VALUES ('acme', 4711, decode(repeat('01', 16), 'hex'),
        decode(repeat(%(number)s, 8), 'hex'), 'other', 'span')
"""

Act = Callable[[], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class Rivalry:
    """What takes the rows one by one, of the first and of the second, and what takes both."""

    takes: LiteralString
    first: dict[str, Any]
    second: dict[str, Any]
    both: Act


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


def values(work: Work) -> dict[str, Any]:
    pull = work.change_request
    assert pull is not None
    return {"key": work.key, "repo_id": pull.repo_id, "intent_id": work.intent_id}


async def pair(desk: Desk) -> tuple[Work, Work]:
    """Two pieces of work; the first has the lower key, change request and number."""
    first, second = await desk.rows.intent(), await desk.rows.intent()
    assert first.key < second.key
    return first, second


async def lined_up(desk: Desk) -> tuple[Work, Work]:
    """They stand in line the other way round."""
    first, second = await pair(desk)
    await desk.rows.ready(second)
    await desk.rows.ready(first)
    return first, second


async def leased(desk: Desk, **lease: Any) -> tuple[Work, Work]:
    """Their leases were made the other way round."""
    first, second = await pair(desk)
    second = await desk.rows.lease(second, **lease)
    return await desk.rows.lease(first, **lease), second


async def grant_on_change_requests(desk: Desk) -> Rivalry:
    first, second = await lined_up(desk)
    return Rivalry(CHANGE_REQUEST, values(first), values(second), desk.grant)


async def grant_on_leases(desk: Desk) -> Rivalry:
    first, second = await lined_up(desk)
    for work in (first, second):
        await desk.rows.lease(work, state="free", intent_id=4711, settled_at=LONG_AGO)
    return Rivalry(LEASE, values(first), values(second), desk.grant)


async def grant_of_new_leases(desk: Desk) -> Rivalry:
    first, second = await lined_up(desk)
    return Rivalry(NEW_LEASE, values(first), values(second), desk.grant)


async def renewals(desk: Desk) -> Rivalry:
    first, second = await leased(desk)
    fences = [fence_of(second), fence_of(first)]
    return Rivalry(
        LEASE, values(first), values(second), lambda: desk.dispatching.renew("acme", fences)
    )


async def outcomes_on_intents(desk: Desk) -> Rivalry:
    first, second = await leased(desk)
    items = [settlement(fence_of(work), completed()) for work in (second, first)]
    return Rivalry(
        INTENT, values(first), values(second), lambda: desk.dispatching.settle("acme", items)
    )


async def end_of_a_session(desk: Desk) -> Rivalry:
    """The second's intent is the older one: a session's leases are read in that order."""
    stream = await desk.stream()
    pull = await desk.rows.change_request()
    second = await desk.rows.intent()
    first = await desk.rows.intent(pull)
    assert first.key < second.key
    for work in (second, first):
        await desk.rows.lease(work, session_id=stream.session_id)
    return Rivalry(
        LEASE, values(first), values(second), lambda: desk.dispatching.end_session(stream)
    )


async def spans_of_a_flush(desk: Desk) -> Rivalry:
    work = await desk.running()
    spans = [span(work, 2), span(work, 1)]
    return Rivalry(SPAN, {"number": "01"}, {"number": "02"}, lambda: desk.flush(work, spans))


RIVALRIES: tuple[Callable[[Desk], Awaitable[Rivalry]], ...] = (
    grant_on_change_requests,
    grant_on_leases,
    grant_of_new_leases,
    renewals,
    outcomes_on_intents,
    end_of_a_session,
    spans_of_a_flush,
)


@pytest.mark.guarantee("X7")
@pytest.mark.parametrize("made", RIVALRIES)
async def test_a_list_never_stands_crosswise_to_another_transaction(
    desk: Desk, blocker: Blocker, made: Callable[[Desk], Awaitable[Rivalry]]
) -> None:
    rivalry = await made(desk)
    conflicts_before = DATABASE_CONFLICTS._value.get()
    await blocker.hold(rivalry.takes, **rivalry.first)

    async def take_the_second() -> None:
        await blocker.hold(rivalry.takes, **rivalry.second)
        await blocker.roll_back()

    [outcome] = await forced(blocker, [rivalry.both()], release=take_the_second)
    assert not isinstance(outcome, BaseException), outcome
    assert DATABASE_CONFLICTS._value.get() == conflicts_before
