"""A served watchdog, an operator's key for it, and a shell that knows both."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from services.first_keys import ALL_SCOPES
from tests.database_server import DatabaseServer, as_service
from tests.rows import Rows
from tests.sdk.cli.terminal import Shell
from tests.services.watchdog.made import stored_key
from tests.services.watchdog.served import Served, served


@dataclass(frozen=True)
class Place:
    """The process and its database, for all tests of a module."""

    owner_url: str
    watchdog: Served


@pytest.fixture(scope="module")
def place(database_server: DatabaseServer) -> Iterator[Place]:
    for owner_url in database_server.each_database():
        with served(as_service(owner_url, "watchdog")) as watchdog:
            yield Place(owner_url, watchdog)


@pytest.fixture
async def rows(place: Place) -> AsyncIterator[Rows]:
    """Makes rows as the owner; they stay for the tests after this one."""
    async with await AsyncConnection.connect(place.owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def operator(rows: Rows) -> str:
    """The credential of an operator of all tenants."""
    credential, _ = await stored_key(rows, None, scopes=list(ALL_SCOPES), label="operator")
    return credential.text


@pytest.fixture
def shell(tmp_path: Path, place: Place, operator: str) -> Shell:
    """A folder of its own, and the environment that an operator would set."""
    environment = {"FENCEPOST_WATCHDOG": place.watchdog.grpc, "FENCEPOST_API_KEY": operator}
    return Shell(tmp_path, environment)
