"""A publisher's rooms on a real database, as its own role."""

from collections.abc import AsyncIterator, Callable

import pytest
from psycopg import AsyncConnection
from pydantic import SecretStr

from services.publisher.settings import PublisherSettings
from shared.database import Database
from shared.schema.grants import Service
from tests.rows import Rows


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    """Makes rows as the owner."""
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
def settings(service_url: Callable[[Service], str]) -> PublisherSettings:
    """Settings of a publisher that is not served."""
    return PublisherSettings(
        database_url=SecretStr(service_url("publisher")), database_lock_timeout_ms=10_000
    )


@pytest.fixture
async def database(settings: PublisherSettings) -> AsyncIterator[Database]:
    """The database as the publisher's role sees it."""
    async with Database.create(settings, application_name="publisher") as database:
        yield database
