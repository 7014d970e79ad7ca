"""The watchdog's rooms on a real database, as its own role."""

from collections.abc import AsyncIterator, Callable

import pytest
from psycopg import AsyncConnection

from services.watchdog.settings import WatchdogSettings
from shared.database import Database
from shared.schema.grants import Service
from tests.rows import Rows
from tests.services.watchdog.made import watchdog_settings


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
