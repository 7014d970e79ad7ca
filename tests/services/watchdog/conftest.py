"""The watchdog's rooms on a real database, as its own role."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from psycopg import AsyncConnection

from services.watchdog.settings import WatchdogSettings
from shared.database import Database
from shared.schema.grants import Service
from tests.database_server import DatabaseServer, as_service
from tests.rows import Rows
from tests.services.watchdog.made import watchdog_settings
from tests.services.watchdog.served import served
from tests.services.watchdog.stage import Place, Stage


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    """Makes rows as the owner."""
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
def settings(service_url: Callable[[Service], str]) -> WatchdogSettings:
    """Settings of a watchdog that is not served."""
    return watchdog_settings(service_url("watchdog"))


@pytest.fixture
async def database(settings: WatchdogSettings) -> AsyncIterator[Database]:
    """The database as the watchdog's role sees it."""
    async with Database.create(settings, application_name="watchdog") as database:
        yield database


@pytest.fixture(scope="module")
def place(database_server: DatabaseServer) -> Iterator[Place]:
    """One process for all tests here; each has tenants of its own."""
    for owner_url in database_server.each_database():
        with served(as_service(owner_url, "watchdog")) as watchdog:
            yield Place(owner_url, watchdog)


@pytest.fixture
async def stage(place: Place) -> AsyncIterator[Stage]:
    """The process with clients and rows."""
    async with await AsyncConnection.connect(place.owner_url, autocommit=True) as connection:
        yield Stage(place.watchdog, Rows(connection))


@pytest.fixture
def tenant(place: Place) -> str:
    """A tenant that no other test has."""
    return next(place.tenants)
