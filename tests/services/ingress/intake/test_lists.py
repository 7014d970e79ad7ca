"""A list gets what its items would get one after the other, in one transaction."""

import random
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from fencepost.errors import Internal

from services.ingress.endpoints import Endpoint
from services.ingress.submissions import Submission, SubmissionOutcome, Taken
from shared.schema.states import DeliveryOutcome
from tests.services.ingress.desk import Desk
from tests.services.ingress.pulls import A, B, C, pull, submission

LISTS = 12
ITEMS = 12
ACTIONS = ("opened", "synchronize", "synchronize", "reopened", "closed", "ready_for_review")
TABLES = {
    "change_requests": (
        "number",
        "head_sha",
        "generation",
        "state",
        "superseded_through",
        "abandoned_through",
        "forge_updated_at",
    ),
    "change_request_heads": ("number", "generation", "head_sha"),
    "intents": ("number", "key", "action", "generation", "status", "reason"),
    "ready": ("key", "action"),
    "deliveries": ("delivery_id", "outcome", "reason", "matched_delivery_id", "body_sha256"),
    "delivery_markers": ("delivery_id", "body_sha256"),
}
"""What must be the same, without numbers and times of our own."""


def drawn(chance: random.Random, endpoint: Endpoint) -> list[Submission]:
    """Deliveries that meet each other: few ids, few heads, two change requests, few times."""
    return [
        submission(
            endpoint,
            f"d-{chance.randrange(ITEMS)}",
            pull(
                chance.choice(ACTIONS),
                head_sha=chance.choice((A, B, C)),
                before=chance.choice((A, B, C)),
                at=chance.randrange(4),
                number=chance.choice((2, 2, 9)),
                draft=chance.random() < 0.1,
            ),
        )
        for _ in range(ITEMS)
    ]


async def said(desk: Desk, outcomes: list[SubmissionOutcome]) -> list[object]:
    """Outcomes, with intents named by what they are for."""
    intents = {row["intent_id"]: row for row in await desk.rows.all("intents")}
    return [
        (
            outcome.outcome,
            outcome.matched,
            outcome.first_delivery_id,
            outcome.reason,
            [(intents[i]["key"], intents[i]["generation"]) for i in outcome.intent_ids],
        )
        if isinstance(outcome, Taken)
        else outcome.reason
        for outcome in outcomes
    ]


async def written(desk: Desk, tenant: str) -> dict[str, list[Any]]:
    """What stands in the tables of one tenant, in an order of its own."""
    return {
        table: sorted(
            repr([row[column] for column in columns])
            for row in await desk.rows.all(table, tenant=tenant)
        )
        for table, columns in TABLES.items()
    }


@pytest.mark.guarantee("I1", "I9", "I13")
@pytest.mark.parametrize("seed", range(LISTS))
async def test_a_list_gets_what_its_items_would_get_one_after_the_other(
    desk: Desk, seed: int
) -> None:
    listed, single = (replace(desk.endpoint, tenant=tenant) for tenant in ("listed", "single"))
    whole = await desk.intake.submit(drawn(random.Random(seed), listed))
    parts = [(await desk.intake.submit([each]))[0] for each in drawn(random.Random(seed), single)]
    assert await said(desk, whole) == await said(desk, parts)
    assert await written(desk, "listed") == await written(desk, "single")
    assert len({outcome.reason for outcome in whole}) > 1


async def refuse_bodies_of(desk: Desk, number: int) -> None:
    """Lets the database refuse what no validation of ours foresees."""
    await desk.rows.connection.execute(
        psycopg.sql.SQL(
            "ALTER TABLE fencepost.deliveries ADD CONSTRAINT poison CHECK (number <> {})"
        ).format(number)
    )


@pytest.mark.parametrize("poisoned", [(0,), (7,), (3, 4), tuple(range(8))], ids=str)
async def test_what_the_database_refuses_fails_alone(desk: Desk, poisoned: tuple[int, ...]) -> None:
    await refuse_bodies_of(desk, 666)
    numbers = [666 if n in poisoned else n + 1 for n in range(8)]
    outcomes = await desk.intake.submit(
        [
            submission(desk.endpoint, f"d-{n}", pull(number=number))
            for n, number in enumerate(numbers)
        ]
    )
    failed = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Internal)]
    assert failed == list(poisoned)
    taken = [outcome.outcome for outcome in outcomes if isinstance(outcome, Taken)]
    assert set(taken) <= {DeliveryOutcome.ACCEPTED}
    stored = {row["delivery_id"] for row in await desk.rows.all("deliveries")}
    marked = {row["delivery_id"] for row in await desk.rows.all("delivery_markers")}
    assert stored == marked == {f"d-{n}" for n in range(8) if n not in poisoned}


async def test_what_is_refused_alone_is_a_fault_of_ours(desk: Desk) -> None:
    await refuse_bodies_of(desk, 666)
    assert isinstance(await desk.submit("d-1", pull(number=666)), Internal)
    assert await desk.written() == {}
