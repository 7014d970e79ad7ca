"""A dispatcher that the tests of the worker share, each test with a tenant of its own."""

from collections.abc import AsyncIterator, Iterator

import pytest
from psycopg import AsyncConnection

from tests.database_server import DatabaseServer, as_service
from tests.rows import Rows
from tests.sdk.worker.bench import Bench
from tests.service_process import ServiceProcess, service_process

SHORT_LEASE_MS = 1500

DISPATCHER = {
    "DISPATCHER_POLL_INTERVAL_MS": "50",
    "DISPATCHER_HEARTBEAT_INTERVAL_MS": "200",
    "DISPATCHER_MOVER_PERIOD_MS": "50",
    "DISPATCHER_RETRY_DELAY_MS": "0",
}


@pytest.fixture(scope="session")
def shared_url(database_server: DatabaseServer) -> Iterator[str]:
    """The owner's URL of the database that these tests share."""
    yield from database_server.each_database()


@pytest.fixture(scope="session")
def dispatcher(shared_url: str) -> Iterator[ServiceProcess]:
    """A dispatcher that grants for as long as the tests run."""
    url = as_service(shared_url, "dispatcher")
    environment = {**DISPATCHER, "DISPATCHER_INSTANCE": "patient"}
    with service_process("dispatcher", url, environment) as serving:
        yield serving


@pytest.fixture(scope="session")
def hasty_dispatcher(shared_url: str) -> Iterator[ServiceProcess]:
    """A dispatcher whose leases are short, and leaves it to others to expire them."""
    url = as_service(shared_url, "dispatcher")
    environment = {
        **DISPATCHER,
        "DISPATCHER_INSTANCE": "hasty",
        "DISPATCHER_LEASE_MS": str(SHORT_LEASE_MS),
    }
    with service_process("dispatcher", url, environment) as serving:
        yield serving


@pytest.fixture
async def rows(shared_url: str) -> AsyncIterator[Rows]:
    """Makes rows as the owner."""
    async with await AsyncConnection.connect(shared_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def bench(rows: Rows, dispatcher: ServiceProcess) -> Bench:
    """Work under leases that last."""
    return await Bench.made(rows, dispatcher.grpc)


@pytest.fixture
async def hasty_bench(rows: Rows, hasty_dispatcher: ServiceProcess) -> Bench:
    """Work under short leases."""
    return await Bench.made(rows, hasty_dispatcher.grpc)
