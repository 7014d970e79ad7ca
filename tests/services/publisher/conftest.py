"""A publisher's rooms on a real database, as its own role, and a forge to write to."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from psycopg import AsyncConnection

from examples.scripted_forge.client import ScriptedForge
from services.publisher.settings import PublisherSettings
from shared.database import Database
from shared.schema.grants import Service
from tests.rows import Rows
from tests.services.publisher.bench import Bench, forge_settings
from tests.services.publisher.commands import publisher_settings


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    """Makes rows as the owner."""
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
def settings(service_url: Callable[[Service], str]) -> PublisherSettings:
    """Settings of a publisher that is not served."""
    return publisher_settings(service_url("publisher"))


@pytest.fixture
async def database(settings: PublisherSettings) -> AsyncIterator[Database]:
    """The database as the publisher's role sees it."""
    async with Database.create(settings, application_name="publisher") as database:
        yield database


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedForge]:
    """A forge as a process of its own, which must end with status 0."""
    forge = ScriptedForge.start(tmp_path_factory.mktemp("forge"))
    yield forge
    assert forge.stop() == 0


@pytest.fixture
def bench(
    rows: Rows, forge: ScriptedForge, database: Database, settings: PublisherSettings
) -> Bench:
    """A publisher with its database and its forge."""
    return Bench(rows, forge, database, forge_settings(settings, forge))
