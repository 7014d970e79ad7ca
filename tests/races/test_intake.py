"""Intake's races, each forced: all contenders are seen waiting before anything is decided."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from fencepost.errors import DeliveryConflict
from psycopg import sql

from services.ingress.submissions import Match, SubmissionOutcome, Taken
from shared.keys import Key
from shared.metrics import REGISTRY
from shared.schema.grants import Service
from shared.schema.states import DeliveryOutcome
from tests.races.forcing import Blocker, blocking, forced
from tests.rows import Rows
from tests.services.ingress.desk import Desk, opened
from tests.services.ingress.intake.test_redrive import bury
from tests.services.ingress.pulls import (
    NUMBER,
    REPO_ID,
    TENANT,
    A,
    B,
    C,
    pull,
    settings_of,
    submission,
)

ACCEPTED, DUPLICATE = DeliveryOutcome.ACCEPTED, DeliveryOutcome.DUPLICATE
CONTENDERS = 4
REDRIVE_AND_BURY = """
    WITH again AS (
        INSERT INTO fencepost.intents (tenant, queue, key, key_label, action, generation,
            forge_instance, repo_id, number, head_sha, delivery_seq, content_type, status,
            settled_at)
        SELECT tenant, queue, key, key_label, action, generation, forge_instance, repo_id, number,
            head_sha, delivery_seq, content_type, 'dead', clock_timestamp()
        FROM fencepost.intents
        RETURNING intent_id
    )
    UPDATE fencepost.intents SET status = 'redriven', settled_by = (SELECT intent_id FROM again)
"""
MARK_BODY = """
    INSERT INTO fencepost.body_markers (tenant, endpoint, event, body_sha256, delivery_id,
        expires_at)
    VALUES ('acme', 'github', 'pull_request', %(body_sha256)s, 'd-0',
        clock_timestamp() + interval '1 hour')
"""
MARK = """
    INSERT INTO fencepost.delivery_markers (tenant, endpoint, delivery_id, body_sha256, expires_at)
    VALUES ('acme', 'github', %(delivery_id)s, '', clock_timestamp() + interval '1 hour')
"""


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    async with opened(owner_url, settings_of(service_url("ingress"))) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


async def winner(blocker: Blocker, delivery_id: str) -> int:
    """Writes, without a commit, what an intake that was first would; returns its intent."""
    rows = Rows(blocker.connection, tenant=TENANT)
    body = pull()
    key = Key(forge_instance="github.com", repo_id=REPO_ID, number=NUMBER, head_sha=A).canonical()
    delivery = await rows.delivery(delivery_id=delivery_id, body=body, key=key)
    await rows.insert(
        "delivery_markers",
        tenant=TENANT,
        endpoint="github",
        delivery_id=delivery_id,
        body_sha256=delivery["body_sha256"],
        expires_at=sql.SQL("clock_timestamp() + interval '1 hour'"),
    )
    intent = await rows.insert(
        "intents",
        tenant=TENANT,
        queue="reviews",
        key=key,
        key_label=key,
        action="container-dispatch",
        generation=1,
        content_type="application/json",
        delivery_seq=delivery["delivery_seq"],
    )
    await rows.change("deliveries", {"delivery_id": delivery_id}, intent_ids=[intent["intent_id"]])
    return int(intent["intent_id"])


def taken(outcomes: Sequence[SubmissionOutcome | BaseException]) -> list[Taken]:
    found = [outcome for outcome in outcomes if isinstance(outcome, Taken)]
    assert len(found) == len(outcomes), outcomes
    return found


@pytest.mark.guarantee("I1")
async def test_submissions_of_one_id_wait_for_the_first_and_get_its_result(
    desk: Desk, blocker: Blocker
) -> None:
    intent_id = await winner(blocker, "d-1")
    outcomes = await forced(
        blocker,
        [desk.submit("d-1", pull()) for _ in range(CONTENDERS)],
        on="delivery_markers",
        release=blocker.commit,
    )
    first = Taken(
        outcome=DUPLICATE,
        matched=Match.DELIVERY_ID,
        first_delivery_id="d-1",
        intent_ids=(intent_id,),
        reason="",
    )
    assert outcomes == [first] * CONTENDERS
    assert await desk.written() == {"delivery_markers": 1, "deliveries": 1, "intents": 1}


@pytest.mark.guarantee("I1")
async def test_when_the_first_rolls_back_another_becomes_the_first(
    desk: Desk, blocker: Blocker
) -> None:
    await winner(blocker, "d-1")
    outcomes = taken(
        await forced(
            blocker,
            [desk.submit("d-1", pull()) for _ in range(CONTENDERS)],
            on="delivery_markers",
            release=blocker.roll_back,
        )
    )
    assert Counter(each.outcome for each in outcomes) == {ACCEPTED: 1, DUPLICATE: CONTENDERS - 1}
    intent = await desk.rows.one("intents")
    assert {each.intent_ids for each in outcomes} == {(intent["intent_id"],)}
    assert {each.first_delivery_id for each in outcomes} == {"d-1"}
    assert set((await desk.written()).values()) == {1}


@pytest.mark.guarantee("I1", "I4")
async def test_of_two_bodies_under_one_id_the_second_is_refused(
    desk: Desk, blocker: Blocker
) -> None:
    await winner(blocker, "d-1")
    outcomes = await forced(
        blocker,
        [desk.submit("d-1", pull(title=title)) for title in ("One", "Other")],
        on="delivery_markers",
        release=blocker.roll_back,
    )
    accepted = [each for each in outcomes if isinstance(each, Taken)]
    refused = [each for each in outcomes if isinstance(each, DeliveryConflict)]
    assert (len(accepted), len(refused)) == (1, 1)
    assert accepted[0].outcome is ACCEPTED
    assert set((await desk.written()).values()) == {1}


@pytest.mark.guarantee("I1")
async def test_an_expired_marker_is_replaced_once(desk: Desk, blocker: Blocker) -> None:
    await desk.take("d-1", pull(number=9))
    past = sql.SQL("clock_timestamp() - interval '1 second'")
    await desk.rows.change("delivery_markers", {"delivery_id": "d-1"}, expires_at=past)
    await blocker.hold("SELECT 1 FROM fencepost.delivery_markers FOR UPDATE")
    outcomes = taken(
        await forced(
            blocker,
            [desk.submit("d-1", pull()) for _ in range(CONTENDERS)],
            on="delivery_markers",
            release=blocker.roll_back,
        )
    )
    assert Counter(each.outcome for each in outcomes) == {ACCEPTED: 1, DUPLICATE: CONTENDERS - 1}
    assert len(await desk.rows.all("deliveries")) == 2


@pytest.mark.guarantee("I13")
async def test_deliveries_for_an_occupied_key_are_duplicates_of_its_occupant(
    desk: Desk, blocker: Blocker
) -> None:
    intent_id = await winner(blocker, "d-0")
    outcomes = taken(
        await forced(
            blocker,
            [desk.submit(f"d-{n}", pull()) for n in range(1, CONTENDERS + 1)],
            on="change_requests",
            release=blocker.commit,
        )
    )
    assert {(each.outcome, each.matched) for each in outcomes} == {(DUPLICATE, Match.KEY)}
    assert {(each.first_delivery_id, each.intent_ids) for each in outcomes} == {
        ("d-0", (intent_id,))
    }
    assert len(await desk.rows.all("intents")) == 1
    assert await desk.rows.all("ready") == []
    stored = await desk.rows.all("deliveries", outcome="duplicate", matched_delivery_id="d-0")
    assert len(stored) == CONTENDERS


@pytest.mark.guarantee("I13")
async def test_when_the_occupant_rolls_back_one_delivery_occupies_the_key(
    desk: Desk, blocker: Blocker
) -> None:
    await winner(blocker, "d-0")
    outcomes = taken(
        await forced(
            blocker,
            [desk.submit(f"d-{n}", pull()) for n in range(1, CONTENDERS + 1)],
            on="change_requests",
            release=blocker.roll_back,
        )
    )
    [first] = [each for each in outcomes if each.outcome is ACCEPTED]
    others = [each for each in outcomes if each is not first]
    assert {(each.outcome, each.matched) for each in others} == {(DUPLICATE, Match.KEY)}
    assert {each.first_delivery_id for each in others} == {first.first_delivery_id}
    assert {each.intent_ids for each in outcomes} == {first.intent_ids}
    assert len(await desk.rows.all("ready")) == len(await desk.rows.all("intents")) == 1


@pytest.mark.guarantee("I12")
@pytest.mark.parametrize("first_commits", [True, False], ids=["commits", "rolls back"])
async def test_deliveries_of_one_body_wait_for_the_first_and_get_its_result(
    desk: Desk, blocker: Blocker, first_commits: bool
) -> None:
    intent_id = await winner(blocker, "d-0")
    await blocker.hold(MARK_BODY, body_sha256=hashlib.sha256(pull()).digest())
    outcomes = taken(
        await forced(
            blocker,
            [desk.submit(f"d-{n}", pull(), dedupes_by_body=True) for n in range(1, CONTENDERS + 1)],
            on="body_markers",
            release=blocker.commit if first_commits else blocker.roll_back,
        )
    )
    said = Counter((each.outcome, each.matched) for each in outcomes)
    if first_commits:
        assert said == {(DUPLICATE, Match.BODY): CONTENDERS}
        assert {each.intent_ids for each in outcomes} == {(intent_id,)}
    else:
        assert said == {(ACCEPTED, Match.NONE): 1, (DUPLICATE, Match.BODY): CONTENDERS - 1}
        assert len({each.intent_ids for each in outcomes}) == 1
    assert len(await desk.rows.all("intents")) == 1


@pytest.mark.guarantee("I6")
async def test_heads_of_one_change_request_become_current_one_after_the_other(
    desk: Desk, blocker: Blocker
) -> None:
    await desk.take("d-0", pull(head_sha=A))
    await blocker.hold("SELECT 1 FROM fencepost.change_requests FOR UPDATE")
    outcomes = taken(
        await forced(
            blocker,
            [
                desk.submit("d-1", pull("synchronize", before=A, head_sha=B, at=1)),
                desk.submit("d-2", pull("synchronize", before=B, head_sha=C, at=2)),
            ],
            on="change_requests",
            release=blocker.roll_back,
        )
    )
    heads = [(row["generation"], row["head_sha"]) for row in await desk.heads()]
    change_request = await desk.rows.one("change_requests")
    assert heads[-1] == (change_request["generation"], change_request["head_sha"])
    assert change_request["head_sha"] == C
    # Where the newer push was first, the older one found its head outdated.
    outdated = [each.reason == "head-outdated" for each in outcomes]
    assert outdated[1] is False
    assert heads == ([(1, A), (2, C)] if outdated[0] else [(1, A), (2, B), (3, C)])


@pytest.mark.guarantee("I14")
async def test_redeliveries_of_dead_work_redrive_it_once(desk: Desk, blocker: Blocker) -> None:
    first = await desk.take("d-1", pull())
    await bury(desk, first.intent_ids[0])
    await blocker.hold("SELECT 1 FROM fencepost.intents FOR UPDATE")
    outcomes = taken(
        await forced(
            blocker,
            [desk.submit("d-1", pull()) for _ in range(CONTENDERS)],
            on="intents",
            release=blocker.roll_back,
        )
    )
    [(successor,)] = {each.intent_ids for each in outcomes}
    intents = {row["intent_id"]: row for row in await desk.rows.all("intents")}
    assert set(intents) == {*first.intent_ids, successor}
    assert intents[first.intent_ids[0]]["settled_by"] == successor
    assert len(await desk.rows.all("ready")) == 1


@pytest.mark.guarantee("I14")
async def test_a_death_that_a_rival_redrove_is_not_redriven_again_when_its_successor_died(
    desk: Desk, blocker: Blocker
) -> None:
    first = await desk.take("d-1", pull())
    await bury(desk, first.intent_ids[0])
    await blocker.hold(REDRIVE_AND_BURY)
    outcomes = taken(
        await forced(
            blocker,
            [desk.submit("d-1", pull()) for _ in range(CONTENDERS)],
            on="intents",
            release=blocker.commit,
        )
    )
    statuses = {row["intent_id"]: row["status"] for row in await desk.rows.all("intents")}
    assert sorted(statuses.values()) == ["dead", "redriven"]
    assert {each.intent_ids for each in outcomes} == {(max(statuses),)}


@pytest.mark.guarantee("X7", "I1")
async def test_lists_in_opposite_orders_never_wait_for_each_other_crosswise(
    desk: Desk, blocker: Blocker
) -> None:
    await winner(blocker, "d-1")
    first = submission(desk.endpoint, "d-1", pull())
    second = submission(desk.endpoint, "d-2", pull(number=9))
    conflicts = REGISTRY.get_sample_value("database_conflicts_total")
    outcomes = await forced(
        blocker,
        [desk.intake.submit([first, second]), desk.intake.submit([second, first])],
        on="delivery_markers",
        release=blocker.roll_back,
    )
    said = [sorted(each.outcome for each in taken(lists(outcome))) for outcome in outcomes]
    assert sorted(said) == [[ACCEPTED, ACCEPTED], [DUPLICATE, DUPLICATE]]
    assert REGISTRY.get_sample_value("database_conflicts_total") == conflicts


@pytest.mark.guarantee("X7")
async def test_a_list_takes_its_ids_in_their_order(desk: Desk, blocker: Blocker) -> None:
    await blocker.hold(MARK, delivery_id="d-1")
    second_first = [submission(desk.endpoint, f"d-{n}", pull(number=n)) for n in (2, 1)]
    conflicts = REGISTRY.get_sample_value("database_conflicts_total")
    waiting = asyncio.create_task(desk.intake.submit(second_first))
    await blocker.seen_waiting(1, on="delivery_markers")
    # Were the second one taken by now, each would wait for the other.
    await blocker.hold(MARK, delivery_id="d-2")
    await blocker.roll_back()
    assert [each.outcome for each in taken(await waiting)] == [ACCEPTED, ACCEPTED]
    assert REGISTRY.get_sample_value("database_conflicts_total") == conflicts


def lists(outcome: list[SubmissionOutcome] | BaseException) -> list[SubmissionOutcome]:
    assert isinstance(outcome, list), outcome
    return outcome
