"""Submissions that meet share a transaction, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from fencepost.errors import Draining, Internal
from opentelemetry.sdk.trace import TracerProvider

from services.ingress import github_rules, operations
from services.ingress.batched import BatchedIntake
from services.ingress.endpoints.model import ForgeKind
from services.ingress.metrics import DELIVERIES
from services.ingress.rules import Reading
from services.ingress.settings import IngressSettings
from services.ingress.submissions import Match, SubmissionOutcome, Taken
from shared import semantic
from shared.schema.states import DeliveryOutcome
from tests.services.ingress.desk import Desk
from tests.services.ingress.pulls import pull, submission
from tests.waiting import until

CALLERS = 32
POISON = 666


@pytest.fixture
async def batched(desk: Desk, settings: IngressSettings) -> AsyncIterator[BatchedIntake]:
    batched = BatchedIntake(desk.intake, settings)
    yield batched
    await batched.close()


def caller(desk: Desk, batched: BatchedIntake, number: int) -> "asyncio.Task[SubmissionOutcome]":
    """Somebody who submits the opening of a pull request of this number."""
    one = submission(desk.endpoint, f"d-{number}", pull(number=number))
    return asyncio.create_task(batched.submit(one))


async def transactions(desk: Desk) -> int:
    """How many transactions wrote what is stored."""
    cursor = await desk.rows.connection.execute(
        "SELECT count(DISTINCT xmin::text) FROM fencepost.deliveries"
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


@asynccontextmanager
async def deliveries_locked(owner_url: str) -> AsyncIterator[None]:
    """Nothing can be stored until the end of the block."""
    async with await psycopg.AsyncConnection.connect(owner_url) as owner:
        await owner.execute("LOCK TABLE fencepost.deliveries")
        yield


async def working(desk: Desk) -> list[str]:
    """What ingress's connections do that are not idle: the kind of event each waits for."""
    cursor = await desk.rows.connection.execute(
        "SELECT coalesce(wait_event_type, state) FROM pg_stat_activity"
        " WHERE usename = 'fencepost_ingress' AND datname = current_database() AND state <> 'idle'"
    )
    return [row[0] for row in await cursor.fetchall()]


async def blocked(desk: Desk) -> bool:
    """Whether ingress waits for a lock."""
    return await working(desk) == ["Lock"]


async def test_those_who_meet_share_a_transaction(
    owner_url: str, desk: Desk, batched: BatchedIntake
) -> None:
    async with deliveries_locked(owner_url):
        first = caller(desk, batched, 1)
        await until(lambda: blocked(desk), what="the first to be held up")
        others = [caller(desk, batched, 2 + n) for n in range(CALLERS)]
        await asyncio.sleep(0)

    outcomes = await asyncio.gather(first, *others)

    assert [o.outcome for o in outcomes if isinstance(o, Taken)] == [DeliveryOutcome.ACCEPTED] * 33
    assert len({o.intent_ids for o in outcomes if isinstance(o, Taken)}) == 33
    assert await transactions(desk) == 2


async def test_an_idle_one_waits_for_nobody(desk: Desk, batched: BatchedIntake) -> None:
    for number in (1, 2, 3):
        assert isinstance(await caller(desk, batched, number), Taken)

    assert await transactions(desk) == 3


async def test_what_the_database_refuses_leaves_its_neighbours_taken_in(
    desk: Desk, batched: BatchedIntake
) -> None:
    await desk.rows.connection.execute(
        psycopg.sql.SQL(
            "ALTER TABLE fencepost.deliveries ADD CONSTRAINT poison CHECK (number <> {})"
        ).format(POISON)
    )
    numbers = [*range(1, 8), POISON, *range(8, 16)]

    outcomes = await asyncio.gather(*(caller(desk, batched, number) for number in numbers))

    refused = [n for n, o in zip(numbers, outcomes, strict=True) if isinstance(o, Internal)]
    assert refused == [POISON]
    assert len(await desk.rows.all("deliveries")) == len(numbers) - 1
    assert isinstance(await caller(desk, batched, POISON), Internal)


async def test_a_fault_of_ours_over_one_item_is_its_callers_alone(
    desk: Desk, settings: IngressSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(event: str, document: dict[str, object]) -> Reading:
        if document["number"] == POISON:
            raise ZeroDivisionError
        return github_rules.read(event, document)

    monkeypatch.setitem(operations.READERS, ForgeKind.GITHUB, fragile)
    batched = BatchedIntake(desk.intake, settings)

    outcomes = await asyncio.gather(
        *(caller(desk, batched, number) for number in (1, POISON, 2)), return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes] == [Taken, ZeroDivisionError, Taken]


async def test_a_cancelled_caller_leaves_a_clean_connection(
    owner_url: str, desk: Desk, batched: BatchedIntake
) -> None:
    async with deliveries_locked(owner_url):
        leaving, staying = caller(desk, batched, 1), caller(desk, batched, 2)
        await until(lambda: blocked(desk), what="both to be held up")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

    assert isinstance(await staying, Taken)
    again = await caller(desk, batched, 1)

    assert isinstance(again, Taken)
    assert (again.outcome, again.matched) == (DeliveryOutcome.DUPLICATE, Match.DELIVERY_ID)
    assert await working(desk) == []


async def test_each_outcome_is_told_once_and_in_its_callers_span(
    desk: Desk, batched: BatchedIntake
) -> None:
    counter = DELIVERIES.labels(desk.endpoint.name, DeliveryOutcome.ACCEPTED.value)
    before = counter._value.get()
    tracer = TracerProvider().get_tracer("test")

    async def traced(number: int) -> object:
        with tracer.start_as_current_span("submit") as span:
            await caller(desk, batched, number)
        return getattr(span, "attributes", {}).get(semantic.DELIVERY_ID)

    told = await asyncio.gather(*(traced(number) for number in (1, 2, 3)))

    assert told == ["d-1", "d-2", "d-3"]
    assert counter._value.get() - before == 3
    assert await transactions(desk) == 1


async def test_a_large_body_goes_beside_those_that_share(
    desk: Desk, settings: IngressSettings
) -> None:
    small = settings.model_copy(update={"large_body_bytes": 1024})
    batched = BatchedIntake(desk.intake, small)

    await asyncio.gather(*(caller(desk, batched, number) for number in (1, 2, 3)))

    assert await transactions(desk) == 3


async def test_closing_answers_everyone_who_was_let_in(desk: Desk, batched: BatchedIntake) -> None:
    callers = [caller(desk, batched, number) for number in (1, 2, 3)]
    await asyncio.sleep(0)

    await batched.close()

    assert all(isinstance(each.result(), Taken) for each in callers)
    with pytest.raises(Draining):
        await caller(desk, batched, 4)
