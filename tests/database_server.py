"""One PostgreSQL for all processes of a test run, and a database of its own for each test.

The first test that needs it starts a keeper process (`tests.database_keeper`), which holds the
server for as long as any test process lives, however it dies. A database is a copy of one that was
migrated once; where there is room it stands in memory, and a copy costs about 10 ms.
"""

import fcntl
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from shared.schema.grants import Service, role_of
from tests.waiting import until_sync

START_TIMEOUT_S = 60.0
ADMIN_DATABASE = "postgres"

Strategy = Literal["file_copy", "wal_log"]


def password_of(service: Service) -> str:
    """Password of the service's role in every test database."""
    return f"{service} knows"


@dataclass(frozen=True)
class Started:
    """What the keeper tells: the owner's URL of the migrated template, and how to copy it."""

    template_url: str
    strategy: Strategy

    def write(self, run_folder: Path) -> None:
        """Whole or not at all."""
        draft = run_folder / "started.draft"
        draft.write_text(json.dumps(vars(self)))
        draft.rename(started_file(run_folder))

    @classmethod
    def read(cls, run_folder: Path) -> Self | None:
        """None while no server runs."""
        file = started_file(run_folder)
        return cls(**json.loads(file.read_text())) if file.exists() else None


def started_file(run_folder: Path) -> Path:
    """Exists while the server runs."""
    return run_folder / "started.json"


def users_file(run_folder: Path) -> Path:
    """Locked, shared, by each process that uses the server."""
    return run_folder / "users.lock"


class DatabaseServer:
    """This process's use of the run's server; gives out databases that nobody else has."""

    def __init__(self, started: Started, use: IO[bytes]) -> None:
        self._template_url = started.template_url
        self._strategy = started.strategy
        self._use = use
        self._numbers = itertools.count(1)
        self._admin = psycopg.connect(
            make_conninfo(started.template_url, dbname=ADMIN_DATABASE), autocommit=True
        )

    @classmethod
    def of_run(cls, run_folder: Path) -> Self:
        """Joins the run's server; starts it when this process is the first."""
        run_folder.mkdir(exist_ok=True)
        with (run_folder / "starting.lock").open("wb") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            use = users_file(run_folder).open("ab")
            fcntl.flock(use, fcntl.LOCK_SH)
            return cls(Started.read(run_folder) or _start(run_folder), use)

    def close(self) -> None:
        """Leaves; the last one to leave ends the server."""
        self._admin.close()
        self._use.close()

    def new_database(self) -> str:
        """The owner's URL of a migrated database without rows."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        template = str(conninfo_to_dict(self._template_url)["dbname"])
        self._admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY {}").format(
                sql.Identifier(name), sql.Identifier(template), sql.Identifier(self._strategy)
            )
        )
        return url_of(self._template_url, dbname=name)

    def drop(self, owner_url: str) -> None:
        """Drops a database, whoever is still connected."""
        name = str(conninfo_to_dict(owner_url)["dbname"])
        self._admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def each_database(self) -> Iterator[str]:
        """One new database, dropped when it is no longer used."""
        owner_url = self.new_database()
        yield owner_url
        self.drop(owner_url)


def as_service(owner_url: str, service: Service) -> str:
    """The same database as the service's own role sees it."""
    return url_of(owner_url, user=role_of(service), password=password_of(service))


def url_of(conninfo: str, **changes: str | int) -> str:
    """A postgresql:// URL of any connection string."""
    parts = {**conninfo_to_dict(conninfo), **changes}
    return "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(
        **{name: str(value).replace(" ", "%20") for name, value in parts.items()}
    )


def _start(run_folder: Path) -> Started:
    with (run_folder / "keeper.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.database_keeper", str(run_folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def answer() -> Started | None:
        if keeper.poll() is not None:
            raise RuntimeError((run_folder / "keeper.log").read_text())
        return Started.read(run_folder)

    started = until_sync(answer, deadline_s=START_TIMEOUT_S, what="the tests' database server")
    # It ends after the last process that uses it, which may not be this one: nobody waits for it.
    keeper.returncode = 0
    return started
