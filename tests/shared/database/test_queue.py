"""Callers wait for a connection in a queue that has an end."""

import asyncio

import pytest
from fencepost.errors import Overloaded
from structlog.testing import capture_logs

from shared.database import Database, Transaction
from tests.shared.database.conftest import add, settings_for, value
from tests.waiting import until

PATIENT_MS = 10_000
"""The queue must stand long enough to be looked at."""


async def test_who_comes_to_a_full_queue_is_told_at_once_and_the_database_is_not_called_away(
    url: str,
) -> None:
    settings = settings_for(
        url, database_pool_max=1, concurrent_rpcs_max=1, database_connect_timeout_ms=PATIENT_MS
    )
    taken, go_on = asyncio.Event(), asyncio.Event()

    async def holding(tx: Transaction) -> None:
        taken.set()
        await go_on.wait()
        await add(tx)

    async with Database.create(settings, application_name="test") as db:
        holder = asyncio.create_task(db.run(holding))
        await taken.wait()
        waiting = asyncio.create_task(db.run(add))
        await until(lambda: db._pool.get_stats()["requests_waiting"] == 1, what="a queue")
        with capture_logs() as logs, pytest.raises(Overloaded):
            await db.run(add)
        assert logs == []
        go_on.set()
        await asyncio.gather(holder, waiting)
        assert await db.read(value) == 2
