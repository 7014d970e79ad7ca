"""Intents are added all or none, once a request id, and read by their tenant alone."""

from datetime import UTC, datetime
from typing import Any

import pytest
from fencepost.errors import RequestIdReused, ResourceNotFound

from services.dispatcher.intents.operations import Enqueue
from services.dispatcher.intents.store import NewIntent
from shared.keys import Key, intent_key
from tests.rows import Rows
from tests.services.dispatcher.desk import Desk, fence_of, released, settlement

TABLES = ("intents", "ready", "waiting", "request_ids")
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)
KEY = Key(forge_instance="github.com", repo_id=5, number=7, head_sha="a" * 40)


def new_intent(**changes: Any) -> NewIntent:
    said = {
        "queue": "reviews",
        "key": None,
        "label": "",
        "action": "container-dispatch",
        "priority": 0,
        "not_before": None,
        "payload": b"{}",
        "content_type": "application/json",
        "schema_name": "",
        "traceparent": "",
    }
    return NewIntent(**{**said, **changes})


def enqueue(*intents: NewIntent, **changes: Any) -> Enqueue:
    said = {"tenant": "acme", "request_id": "request-1", "digest": b"digest"}
    return Enqueue(**{**said, **changes}, intents=intents or [new_intent()])


async def written(desk: Desk) -> list[object]:
    return [await desk.rows.all(table) for table in TABLES]


async def test_intents_are_added_in_order_and_ready(desk: Desk) -> None:
    ids = await desk.intents.enqueue(enqueue(*(new_intent(queue=f"q-{n}") for n in range(5))))
    assert ids == sorted(ids)
    assert [row["queue"] for row in await desk.rows.all("intents")] == [f"q-{n}" for n in range(5)]
    ready = sorted(await desk.rows.all("ready"), key=lambda row: row["number"])
    assert [row["intent_id"] for row in ready] == ids


async def test_an_intent_without_a_key_is_its_own(desk: Desk) -> None:
    [intent_id] = await desk.intents.enqueue(enqueue(new_intent(priority=5)))
    row = await desk.rows.one("intents")
    assert row["key"] == row["key_label"] == intent_key(intent_id)
    assert [row[name] for name in ("forge_instance", "repo_id", "number", "head_sha")] == [None] * 4
    [grant] = await desk.grant()
    assert (grant.key, grant.intent.generation) == (intent_key(intent_id), 1)


async def test_a_key_is_stored_with_its_parts_and_its_label(desk: Desk) -> None:
    await desk.intents.enqueue(enqueue(new_intent(key=KEY, label="o/r#7@aaa"), new_intent(key=KEY)))
    labelled, bare = await desk.rows.all("intents")
    assert labelled["key"] == bare["key"] == KEY.canonical()
    assert (labelled["key_label"], bare["key_label"]) == ("o/r#7@aaa", KEY.canonical())
    assert (labelled["repo_id"], labelled["number"], labelled["head_sha"]) == (5, 7, "a" * 40)


async def test_an_intent_carries_the_generation_of_its_head(desk: Desk) -> None:
    pull = await desk.rows.change_request(head_sha="b" * 40, generation=3)
    before = {"number": 7, "head_sha": "a" * 40, "tenant": "acme"}
    place = {"forge_instance": pull.forge_instance, "repo_id": pull.repo_id}
    for generation in (1, 2):
        await desk.rows.insert("change_request_heads", **before, **place, generation=generation)
    keys = [
        Key(forge_instance=pull.forge_instance, repo_id=pull.repo_id, number=7, head_sha=sha * 40)
        for sha in "abc"
    ]
    await desk.intents.enqueue(enqueue(*(new_intent(key=key) for key in (*keys, KEY))))
    assert [row["generation"] for row in await desk.rows.all("intents")] == [2, 3, 3, 1]


async def test_what_is_not_due_waits_for_its_time(desk: Desk) -> None:
    past = datetime(2000, 1, 1, tzinfo=UTC)
    times = (FUTURE, None, past)
    ids = await desk.intents.enqueue(enqueue(*(new_intent(not_before=time) for time in times)))
    waiting = await desk.rows.all("waiting")
    assert [(row["intent_id"], row["due_at"], row["waits_on"]) for row in waiting] == [
        (ids[0], FUTURE, "time"),
        (ids[2], past, "time"),
    ]
    await desk.move()
    assert {row["intent_id"] for row in await desk.rows.all("ready")} == {ids[1], ids[2]}
    assert {grant.intent.intent_id for grant in await desk.grant()} == {ids[1], ids[2]}


@pytest.mark.guarantee("X6")
async def test_a_repeat_gets_the_first_answer_and_adds_nothing(desk: Desk) -> None:
    command = enqueue(new_intent(), new_intent())
    ids = await desk.intents.enqueue(command)
    before = await written(desk)
    assert await desk.intents.enqueue(command) == ids
    assert await written(desk) == before


@pytest.mark.guarantee("X4")
async def test_a_request_id_stands_for_one_request(desk: Desk) -> None:
    await desk.intents.enqueue(enqueue())
    before = await written(desk)
    with pytest.raises(RequestIdReused):
        await desk.intents.enqueue(enqueue(new_intent(), digest=b"other"))
    assert await written(desk) == before


@pytest.mark.guarantee("X8")
async def test_request_ids_of_two_tenants_are_two(desk: Desk) -> None:
    mine = await desk.intents.enqueue(enqueue())
    theirs = await desk.intents.enqueue(enqueue(tenant="theirs", digest=b"other"))
    assert mine != theirs
    assert [row["tenant"] for row in await desk.rows.all("intents")] == ["acme", "theirs"]


@pytest.mark.guarantee("X4")
async def test_all_are_added_or_none(desk: Desk) -> None:
    await desk.rows.connection.execute(
        "ALTER TABLE fencepost.waiting ADD CHECK (queue <> 'broken')"
    )
    with pytest.raises(Exception, match="violates check constraint"):
        await desk.intents.enqueue(
            enqueue(new_intent(), new_intent(queue="broken", not_before=FUTURE))
        )
    assert await written(desk) == [[], [], [], []]
    assert len(await desk.intents.enqueue(enqueue())) == 1


async def test_an_open_intent_says_where_it_stands(desk: Desk) -> None:
    [intent_id] = await desk.intents.enqueue(enqueue())
    stream = await desk.stream()
    places = []

    async def look() -> None:
        view = await desk.intents.get("acme", intent_id)
        places.append((view.is_ready, view.is_waiting, view.is_leased, view.attempts))

    await look()
    [grant] = await desk.grant(stream)
    await look()
    item = settlement(fence_of(grant, holder=stream.session_id), released(delay_ms=60_000))
    await desk.dispatching.settle("acme", [item])
    await look()
    assert places == [(True, False, False, 0), (False, False, True, 1), (False, True, False, 0)]
    assert (await desk.intents.get("acme", intent_id)).reason == "given back"


@pytest.mark.guarantee("X8")
async def test_another_tenants_intent_is_not_found(desk: Desk) -> None:
    theirs = await Rows(desk.rows.connection, tenant="theirs").intent()
    with pytest.raises(ResourceNotFound) as missing:
        await desk.intents.get("acme", theirs.intent_id)
    with pytest.raises(ResourceNotFound) as never:
        await desk.intents.get("acme", 10**18)
    assert str(missing.value).replace(str(theirs.intent_id), "") == str(never.value).replace(
        str(10**18), ""
    )
