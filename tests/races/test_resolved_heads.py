"""A head is resolved while others write of the same change request."""

from collections.abc import AsyncIterator, Callable

import pytest

from services.dispatcher.housekeeping.resolve_operations import HeadResolver
from shared.schema.grants import Service
from tests.races.forcing import blocking, forced
from tests.services.dispatcher.desk import Desk, opened
from tests.services.dispatcher.housekeeping.test_resolve import FOUND, HEAD, Publisher, headless

TOLD = """
INSERT INTO fencepost.change_requests (
    tenant, forge_instance, repo_id, number, forge, repo_name, url, head_sha, generation, state
) VALUES (
    'acme', 'github.com', 4711, 7, 'github', 'octo-org/told', 'https://github.com/pull/7',
    'ec26c3e57ca3a959ca5aad62de7213c562f8c821', 5, 'open'
)
"""
LOCK = "SELECT 1 FROM fencepost.change_requests FOR UPDATE"


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


def resolver(desk: Desk) -> HeadResolver:
    return HeadResolver(desk.database, desk.wakeups, Publisher([FOUND]).ask, desk.settings)


@pytest.mark.guarantee("I7", "X7")
async def test_a_change_request_that_somebody_tells_of_at_that_moment_is_theirs(
    desk: Desk, owner_url: str
) -> None:
    work = await headless(desk.rows)
    async with blocking(owner_url) as blocker:
        await blocker.hold(TOLD)
        await forced(blocker, [resolver(desk).tick()], on="change_requests", release=blocker.commit)
    row = await desk.intent(work)
    assert (row["head_sha"], row["generation"]) == (HEAD, 5)
    assert (await desk.rows.one("change_requests"))["repo_name"] == "octo-org/told"
    assert await desk.rows.all("change_request_heads") == []


@pytest.mark.guarantee("I7", "X7")
async def test_a_head_is_stored_under_the_lock_of_its_change_request(
    desk: Desk, owner_url: str
) -> None:
    """A push that is being recorded comes first: the work gets the generation that it makes."""
    pull = await desk.rows.change_request()
    work = await headless(desk.rows, pull)
    async with blocking(owner_url) as blocker:
        await blocker.hold(LOCK)
        await blocker.hold("UPDATE fencepost.change_requests SET generation = 2")
        await forced(blocker, [resolver(desk).tick()], on="change_requests", release=blocker.commit)
    assert (await desk.intent(work))["generation"] == 2
