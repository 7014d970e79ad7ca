"""A database that answers and takes no writes is not ready, and the ping says why."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from fencepost.errors import DatabaseUnavailable
from psycopg.conninfo import conninfo_to_dict

from shared.database import Database
from shared.embedded import EmbeddedPostgres
from shared.embedded.binaries import find_binaries
from shared.embedded.programs import command_line, environment
from shared.schema.grants import Service
from tests.shared.database.conftest import settings_for
from tests.waiting import until_sync

START_S = 30.0


async def ping(url: str) -> None:
    """One look at a database, by a pool of its own."""
    async with Database.create(settings_for(url), application_name="test") as db:
        await db.ping()


async def test_a_database_that_was_set_read_only_is_not_ready(
    owner_url: str, service_url: Callable[[Service], str]
) -> None:
    await ping(service_url("dispatcher"))
    parts = conninfo_to_dict(owner_url)
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute(
            f"ALTER DATABASE {parts['dbname']} SET default_transaction_read_only = on".encode()
        )
    with pytest.raises(DatabaseUnavailable, match=r"takes no writes.*name the primary"):
        await ping(service_url("dispatcher"))


async def test_a_standby_is_not_ready(standby_url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"takes no writes.*name the primary"):
        await ping(standby_url)


@pytest.fixture
def standby_url(tmp_path: Path) -> Iterator[str]:
    """A server that reads the log of a primary, which never comes."""
    with EmbeddedPostgres(tmp_path / "data") as made:
        url, port = made.url, made.port
    cluster = tmp_path / "data" / "cluster"
    (cluster / "standby.signal").touch()
    settings = ("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
    words = ("-D", str(cluster), "-p", str(port), *settings)
    with subprocess.Popen(
        command_line(find_binaries().postgres, *words),
        env=environment(),
        stderr=subprocess.DEVNULL,
    ) as server:
        until_sync(lambda: answers(url), deadline_s=START_S, what="the standby to answer")
        yield url
        server.terminate()


def answers(url: str) -> bool:
    """Whether one can log in."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
