"""Servers of both supported kinds: what holds for a schema holds on the oldest and the newest."""

import fcntl
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from shared.embedded import EmbeddedPostgres
from shared.embedded.binaries import Binaries, choose_binaries, find_binaries, system_folders
from shared.embedded.cluster import run_single_user
from shared.embedded.errors import BinariesMissingError
from shared.embedded.folder import DataFolder
from shared.schema.grants import SERVICES, Service
from shared.schema.migrate import migrate
from tests.database_server import DatabaseServer, password_of

PASSWORDS: dict[Service, str] = {service: password_of(service) for service in SERVICES}
NUMBERS = itertools.count(1)
"""Of all databases that this process makes: a server is met again when its kind comes again."""


@dataclass(frozen=True)
class Server:
    """A running server; every database that a test makes on it has a name of its own."""

    owner_url: str

    def new_database(self, *, owner: str | None = None, template: str = "template1") -> str:
        """URL of an empty database that belongs to `owner`, else to the server's owner role."""
        name = f"made_{os.getpid()}_{next(NUMBERS)}"
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
def new_database_server(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[Callable[[str], EmbeddedPostgres]]:
    """Starts servers of a kind, each without our roles; clusters are made once and copied."""
    shared_folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared_folder = shared_folder.parent
    started: list[tuple[EmbeddedPostgres, Path]] = []

    def start(kind: str) -> EmbeddedPostgres:
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
        started.append((database, folder))
        database.start()
        return database

    yield start
    for database, folder in started:
        database.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session", params=["embedded", "system"])
def server(
    request: pytest.FixtureRequest,
    database_server: DatabaseServer,
    new_database_server: Callable[[str], EmbeddedPostgres],
) -> Server:
    """A server on which our roles exist, with known passwords."""
    if request.param == "embedded":
        return Server(database_server.new_database())
    server = Server(new_database_server(request.param).url)
    migrate(server.owner_url, role_passwords=PASSWORDS)
    return server


@pytest.fixture
def bare_database(
    request: pytest.FixtureRequest, new_database_server: Callable[[str], EmbeddedPostgres]
) -> Iterator[EmbeddedPostgres]:
    """The embedded database without our roles; parametrize it for another kind."""
    database = new_database_server(getattr(request, "param", "embedded"))
    yield database
    database.stop()


def as_superuser(database: EmbeddedPostgres, *statements: str) -> None:
    """Runs statements as the embedded cluster's superuser, for whom it must stand still."""
    folder = DataFolder(database.log_file.parent)
    database.stop()
    with folder.lock_file.open() as lock:
        said = "".join(f"{statement}\n" for statement in statements)
        run_single_user(said, folder.cluster, folder, find_binaries(), lock=lock.fileno())
    database.start()


@pytest.fixture
def bare_server(bare_database: EmbeddedPostgres) -> Server:
    """The same as a server."""
    return Server(bare_database.url)


@pytest.fixture
def empty_url(server: Server) -> str:
    """The owner's URL of an empty database."""
    return server.new_database()


@pytest.fixture
def migrated_url(empty_url: str) -> str:
    """The owner's URL of a database of this test's own, migrated."""
    migrate(empty_url)
    return empty_url
