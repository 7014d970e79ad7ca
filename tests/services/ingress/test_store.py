"""Guards of single statements, as ingress's own role: what must not move stays."""

from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pytest
from psycopg import errors, sql

from services.ingress.intake import change_requests_store, intents_store, markers_store
from services.ingress.intake.change_requests_store import ChangeRequestWrite, Head
from services.ingress.intake.intents_store import IntentWrite
from services.ingress.intake.places import KeyParts
from shared.database import Transaction, statement
from shared.schema.states import ChangeRequestState
from tests.services.ingress.desk import Desk

MARKER = ("acme", "github", "d-1")
KEY: KeyParts = ("acme", "github.com", 5, 7)
OTHER: KeyParts = ("acme", "github.com", 5, 8)
T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


async def mark(desk: Desk, digest: bytes = b"x") -> bool:
    taken = await desk.intake.database.run(
        lambda tx: markers_store.insert_markers(tx, {MARKER: digest}, ttl_seconds=60)
    )
    return MARKER in taken


async def forget(desk: Desk) -> None:
    await desk.intake.database.run(lambda tx: markers_store.delete_expired_markers(tx, [MARKER]))


@pytest.mark.guarantee("I1")
async def test_a_delivery_id_is_taken_once(desk: Desk) -> None:
    assert [await mark(desk), await mark(desk, b"y")] == [True, False]
    assert (await desk.rows.one("delivery_markers"))["body_sha256"] == b"x"


@pytest.mark.guarantee("I1")
async def test_only_an_expired_marker_makes_room(desk: Desk) -> None:
    await mark(desk)
    await forget(desk)
    assert len(await desk.rows.all("delivery_markers")) == 1
    await desk.rows.change(
        "delivery_markers", {"delivery_id": "d-1"}, expires_at=sql.SQL("clock_timestamp()")
    )
    await forget(desk)
    assert await desk.rows.all("delivery_markers") == []


def write(**changes: Any) -> ChangeRequestWrite:
    return ChangeRequestWrite(
        **{
            "key": KEY,
            "forge": "github",
            "repo_name": "octo/widgets",
            "url": "https://github.com/octo/widgets/pull/7",
            "base_ref": "main",
            "head_sha": "a" * 40,
            "generation": 2,
            "state": ChangeRequestState.OPEN,
            "forge_updated_at": T0,
            "abandoned_through": 0,
            **changes,
        }
    )


async def test_change_requests_are_inserted_once_and_read_back(desk: Desk) -> None:
    writes = [write(), write(key=OTHER, forge_updated_at=None)]

    async def twice(tx: Transaction) -> list[set[KeyParts]]:
        again = [write(generation=9), write(key=OTHER)]
        return [
            await change_requests_store.insert_change_requests(tx, each) for each in (writes, again)
        ]

    assert await desk.intake.database.run(twice) == [{KEY, OTHER}, set()]
    rows = await desk.intake.database.run(
        lambda tx: change_requests_store.lock_change_requests(tx, [OTHER, KEY, ("a", "b", 1, 2)])
    )
    assert set(rows) == {KEY, OTHER}
    row = rows[KEY]
    assert (row.generation, row.state, row.forge_updated_at) == (2, ChangeRequestState.OPEN, T0)
    assert (await desk.rows.one("change_requests", number=7))["superseded_through"] == 1


@pytest.mark.parametrize(
    "backwards", [{"generation": 1}, {"generation": 3, "abandoned_through": 1}], ids=str
)
async def test_no_counter_of_a_change_request_goes_back(
    desk: Desk, backwards: dict[str, int]
) -> None:
    async def move(tx: Transaction) -> list[int]:
        await change_requests_store.insert_change_requests(tx, [write(abandoned_through=2)])
        on = write(generation=3, head_sha="b" * 40, abandoned_through=2)
        tried = [write(**{"abandoned_through": 2, **backwards}), on]
        return [await change_requests_store.update_change_requests(tx, [each]) for each in tried]

    assert await desk.intake.database.run(move) == [0, 1]
    assert (await desk.rows.one("change_requests"))["head_sha"] == "b" * 40


async def test_heads_that_were_current_once_are_found(desk: Desk) -> None:
    async def known(tx: Transaction) -> set[tuple[KeyParts, str]]:
        change_requests_store.insert_heads(tx, [Head(KEY, 1, "a"), Head(OTHER, 1, "b")])
        asked = [(KEY, "a"), (KEY, "b"), (OTHER, "b"), (OTHER, "c")]
        return await change_requests_store.find_known_heads(tx, asked)

    assert await desk.intake.database.run(known) == {(KEY, "a"), (OTHER, "b")}


INTENT = IntentWrite(
    change_request=KEY,
    queue="reviews",
    key="github.com/5#7@a",
    key_label="octo/widgets#7@a",
    action="container-dispatch",
    generation=2,
    head_sha="a",
    suffix="",
    delivery_seq=1,
    content_type="application/json",
    traceparent="",
)


@pytest.mark.guarantee("I13")
async def test_an_occupied_key_makes_no_second_intent_and_its_first_wish_wins(desk: Desk) -> None:
    database = desk.intake.database
    wishes = [INTENT, INTENT._replace(delivery_seq=2), INTENT._replace(generation=3)]
    made = await database.run(lambda tx: intents_store.insert_intents(tx, wishes))
    assert [row.delivery_seq for row in made] == [1, 1]
    assert await database.run(lambda tx: intents_store.insert_intents(tx, wishes)) == []
    ready = [(row["intent_id"], row["attempts"]) for row in await desk.rows.all("ready")]
    assert sorted(ready) == [(row.intent_id, 0) for row in made]


async def test_intents_are_ready_in_the_order_of_their_deliveries(desk: Desk) -> None:
    keys = ["c", "a", "b"]
    wishes = [INTENT._replace(delivery_seq=n, key=key) for n, key in enumerate(keys, start=1)]
    await desk.intake.database.run(lambda tx: intents_store.insert_intents(tx, wishes))
    ready = sorted(await desk.rows.all("ready"), key=itemgetter("number"))
    assert [row["key"] for row in ready] == keys


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize(
    "forbidden",
    [
        "UPDATE deliveries SET reason = 'x'",
        "DELETE FROM deliveries",
        "UPDATE delivery_markers SET expires_at = 'infinity'",
        "UPDATE intents SET key = ''",
        "DELETE FROM ready",
        "UPDATE leases SET epoch = epoch + 1",
        "SELECT 1 FROM publication_attempts",
    ],
)
async def test_what_ingress_has_no_business_with_is_closed_to_it(
    desk: Desk, forbidden: str
) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        await desk.intake.database.run(lambda tx: tx.execute(statement(forbidden)))
