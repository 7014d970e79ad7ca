"""Servers of both supported kinds: what holds for a schema holds on the oldest and the newest."""

import fcntl
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from shared.embedded import EmbeddedPostgres
from shared.embedded.binaries import Binaries, choose_binaries, find_binaries, system_folders
from shared.embedded.errors import BinariesMissingError
from shared.schema.grants import SERVICES, Service, role_of
from shared.schema.migrate import migrate

PASSWORDS: dict[Service, str] = {service: f"{service} knows" for service in SERVICES}


@dataclass(frozen=True)
class Server:
    """A running server; every database that a test makes on it has a name of its own."""

    database: EmbeddedPostgres
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def owner_url(self) -> str:
        """The owner, in the database that came with the server."""
        return self.database.url

    def new_database(self, *, owner: str | None = None, template: str = "template1") -> str:
        """URL of an empty database that belongs to `owner`, else to the server's owner role."""
        name = f"made_{next(self.numbers)}"
        with psycopg.connect(self.owner_url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}").format(
                    sql.Identifier(name),
                    sql.Identifier(owner or connection.info.user),
                    sql.Identifier(template),
                )
            )
        return make_conninfo(self.owner_url, dbname=name)


def as_role(url: str, role: str, password: str) -> str:
    """The same database as somebody else."""
    return make_conninfo(url, user=role, password=password)


def as_service(url: str, service: Service) -> str:
    """The same database as a service."""
    return as_role(url, role_of(service), PASSWORDS[service])


def database_of(url: str) -> str:
    """Name of the database."""
    return str(conninfo_to_dict(url)["dbname"])


def programs(kind: str) -> Binaries:
    """The embedded PostgreSQL, which is the newest supported, or the system's, which is older."""
    if kind == "embedded":
        return find_binaries()
    try:
        return choose_binaries(list(system_folders()))
    except BinariesMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def new_server(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[Callable[[str], Server]]:
    """Starts servers of a kind, each without our roles; clusters are made once and copied."""
    shared_folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared_folder = shared_folder.parent
    running: list[tuple[EmbeddedPostgres, Path]] = []

    def start(kind: str) -> Server:
        binaries = programs(kind)
        made = shared_folder / f"schema-{kind}-made"
        with (shared_folder / f"schema-{kind}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                draft = shared_folder / f"schema-{kind}-draft"
                with EmbeddedPostgres(draft, binaries=binaries):
                    pass
                draft.rename(made)
        folder = tmp_path_factory.mktemp("server") / kind
        shutil.copytree(made, folder)
        database = EmbeddedPostgres(folder, binaries=binaries)
        running.append((database, folder))
        database.start()
        return Server(database)

    yield start
    for database, folder in running:
        database.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session", params=["embedded", "system"])
def server(request: pytest.FixtureRequest, new_server: Callable[[str], Server]) -> Server:
    """A server on which our roles exist, with known passwords."""
    server = new_server(request.param)
    migrate(server.owner_url, role_passwords=PASSWORDS)
    return server


@pytest.fixture
def bare_server(request: pytest.FixtureRequest, new_server: Callable[[str], Server]) -> Server:
    """A server without our roles; parametrize it with its kind."""
    return new_server(getattr(request, "param", "embedded"))


@pytest.fixture
def empty_url(server: Server) -> str:
    """The owner's URL of an empty database."""
    return server.new_database()


@pytest.fixture
def migrated_url(empty_url: str) -> str:
    """The owner's URL of a database of this test's own, migrated."""
    migrate(empty_url)
    return empty_url
