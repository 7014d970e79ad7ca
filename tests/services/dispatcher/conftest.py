"""A dispatcher's rooms on a real database, as its own role; and one that serves."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from shared.schema.grants import Service
from tests.database_server import DatabaseServer, as_service
from tests.service_process import service_process
from tests.services.dispatcher.desk import Desk, opened
from tests.services.dispatcher.floor import Floor, Serving, floor_on


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    """One dispatcher."""
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture(scope="session")
def serving(database_server: DatabaseServer) -> Iterator[Serving]:
    """A dispatcher that looks for work all the time, for tests that need nothing else of it."""
    for owner_url in database_server.each_database():
        url = as_service(owner_url, "dispatcher")
        with service_process("dispatcher", url, {"DISPATCHER_POLL_INTERVAL_MS": "50"}) as process:
            yield Serving(process.grpc, owner_url)


@pytest.fixture
async def floor(serving: Serving) -> AsyncIterator[Floor]:
    """A tenant of its own on that dispatcher."""
    async with floor_on(serving.owner_url, serving.address) as floor:
        yield floor
