"""Markers whose time is over go, a batch at a time, and intake waits for none of it."""

from typing import Any

import psycopg
import pytest
from psycopg import sql

from services.ingress.intake import purge_loop
from services.ingress.intake.purge_loop import PurgeLoop
from tests.services.ingress.desk import Desk

FILL = """
    INSERT INTO fencepost.delivery_markers (tenant, endpoint, delivery_id, body_sha256, expires_at)
    SELECT 'acme', 'github', 'd' || g, '', clock_timestamp() + (g - 2500) * interval '1 hour'
    FROM generate_series(1, 3000) AS g;
    INSERT INTO fencepost.body_markers (tenant, endpoint, event, body_sha256, delivery_id,
        expires_at)
    SELECT tenant, endpoint, 'push', sha256(delivery_id::bytea), delivery_id, expires_at
    FROM fencepost.delivery_markers
"""
KEPT = 500


async def left(desk: Desk) -> list[int]:
    tables = ("delivery_markers", "body_markers")
    return [len(await desk.rows.all(table)) for table in tables]


@pytest.mark.guarantee("I3")
async def test_what_has_expired_goes_in_bounded_batches(desk: Desk) -> None:
    await desk.rows.connection.execute(FILL)
    loop = PurgeLoop(desk.intake.database)
    seen: list[tuple[bool, list[int]]] = []
    while not seen or seen[-1][0]:
        seen.append((await loop.tick(), await left(desk)))
    assert seen == [
        (True, [2000, 2000]),
        (True, [1000, 1000]),
        (False, [KEPT, KEPT]),
    ]
    assert purge_loop.BATCH_MAX == 1000


@pytest.mark.guarantee("I3")
async def test_a_marker_that_another_has_locked_is_left_for_later(
    desk: Desk, owner_url: str
) -> None:
    past: Any = sql.SQL("clock_timestamp() - interval '1 second'")
    for n in (1, 2):
        await desk.rows.insert(
            "delivery_markers",
            tenant="acme",
            endpoint="github",
            delivery_id=f"d-{n}",
            body_sha256=b"",
            expires_at=past,
        )
    async with await psycopg.AsyncConnection.connect(owner_url) as other:
        await other.execute(
            "SELECT 1 FROM fencepost.delivery_markers WHERE delivery_id = 'd-1' FOR UPDATE"
        )
        assert not await PurgeLoop(desk.intake.database).tick()
        assert [row["delivery_id"] for row in await desk.rows.all("delivery_markers")] == ["d-1"]
