"""Guards of single statements, as ingress's own role: what must not move stays."""

from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import errors, sql

from services.ingress import store
from services.ingress.store import ChangeRequestWrite, IntentWrite, KeyParts
from shared.database import Transaction, statement
from shared.schema.states import ChangeRequestState
from tests.services.ingress.desk import Desk

MARKER = {"tenant": "acme", "endpoint": "github", "delivery_id": "d-1"}
KEY: KeyParts = ("acme", "github.com", 5, 7)
T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


async def mark(desk: Desk, digest: bytes = b"x") -> bool:
    return await desk.intake.database.run(
        lambda tx: store.insert_marker(tx, **MARKER, body_sha256=digest, ttl_seconds=60)
    )


async def forget(desk: Desk) -> None:
    await desk.intake.database.run(lambda tx: store.delete_expired_marker(tx, **MARKER))


@pytest.mark.guarantee("I1")
async def test_a_delivery_id_is_taken_once(desk: Desk) -> None:
    assert [await mark(desk), await mark(desk, b"y")] == [True, False]
    assert (await desk.rows.one("delivery_markers"))["body_sha256"] == b"x"


@pytest.mark.guarantee("I1")
async def test_only_an_expired_marker_makes_room(desk: Desk) -> None:
    await mark(desk)
    await forget(desk)
    assert len(await desk.rows.all("delivery_markers")) == 1
    now = sql.SQL("clock_timestamp()")
    await desk.rows.change("delivery_markers", dict(MARKER), expires_at=now)
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
            **changes,
        }
    )


async def test_a_change_request_is_inserted_once_and_read_back(desk: Desk) -> None:
    database = desk.intake.database
    assert await database.run(lambda tx: store.lock_change_request(tx, KEY)) is None
    assert await database.run(lambda tx: store.insert_change_request(tx, write()))
    assert not await database.run(lambda tx: store.insert_change_request(tx, write(generation=9)))
    row = await database.run(lambda tx: store.lock_change_request(tx, KEY))
    assert row == store.ChangeRequestRow("a" * 40, 2, ChangeRequestState.OPEN, T0)


async def test_a_generation_never_goes_back(desk: Desk) -> None:
    database = desk.intake.database
    await database.run(lambda tx: store.insert_change_request(tx, write()))
    assert not await database.run(lambda tx: store.update_change_request(tx, write(generation=1)))
    assert await database.run(
        lambda tx: store.update_change_request(tx, write(generation=3, head_sha="b" * 40))
    )
    assert (await desk.rows.one("change_requests"))["head_sha"] == "b" * 40


async def test_the_last_generation_of_a_head_is_found(desk: Desk) -> None:
    async def heads(tx: Transaction) -> list[int | None]:
        for generation, head_sha in ((1, "a"), (2, "b"), (3, "a")):
            await store.insert_head(tx, KEY, generation=generation, head_sha=head_sha)
        return [await store.find_head_generation(tx, KEY, head_sha=head) for head in "abc"]

    assert await desk.intake.database.run(heads) == [3, 2, None]


INTENT = IntentWrite(
    change_request=KEY,
    queue="reviews",
    key="github.com/5#7@a",
    key_label="octo/widgets#7@a",
    action="container-dispatch",
    generation=2,
    head_sha="a",
    content_type="application/json",
    traceparent="",
)


@pytest.mark.guarantee("I13")
async def test_an_occupied_key_makes_no_second_intent(desk: Desk) -> None:
    database = desk.intake.database
    made = await database.run(lambda tx: store.insert_intent(tx, INTENT))
    assert made is not None
    assert await database.run(lambda tx: store.insert_intent(tx, INTENT)) is None
    await database.run(lambda tx: store.insert_ready(tx, tenant="acme", intent_id=made.intent_id))
    ready = await desk.rows.one("ready")
    assert (ready["intent_id"], ready["attempts"]) == (made.intent_id, 0)


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize(
    "forbidden",
    [
        "UPDATE deliveries SET reason = 'x'",
        "DELETE FROM deliveries",
        "UPDATE delivery_markers SET expires_at = 'infinity'",
        "UPDATE intents SET status = 'dead'",
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
