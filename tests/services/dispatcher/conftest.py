"""A dispatcher's rooms on a real database, as its own role."""

from collections.abc import AsyncIterator, Callable

import pytest
from psycopg import AsyncConnection

from services.dispatcher.settings import DispatcherSettings
from shared.database import Database
from shared.schema.grants import Service
from tests.rows import Rows
from tests.services.dispatcher.desk import Desk, dispatcher_settings


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    """Makes rows as the owner."""
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
def settings(service_url: Callable[[Service], str]) -> DispatcherSettings:
    """Settings of a dispatcher that is not served."""
    return dispatcher_settings(service_url("dispatcher"))


@pytest.fixture
async def database(settings: DispatcherSettings) -> AsyncIterator[Database]:
    """The database as the dispatcher's role sees it."""
    async with Database.create(settings, application_name="dispatcher") as database:
        yield database


@pytest.fixture
def desk(rows: Rows, database: Database, settings: DispatcherSettings) -> Desk:
    """One dispatcher."""
    return Desk(rows, database, settings)
