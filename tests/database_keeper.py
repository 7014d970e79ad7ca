"""Keeps the test run's PostgreSQL alive until the last process that uses it has ended."""

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from shared.embedded import EmbeddedPostgres
from shared.schema.grants import SERVICES, role_of
from shared.schema.migrate import migrate
from tests.database_server import Started, password_of, started_file, url_of, users_file
from tests.edges import hold_to_edges

MEMORY = Path("/dev/shm")
MEMORY_FREE_BYTES_MIN = 2 * 1024**3
PREFIX = "fencepost-tests-"
CLAIM = "claimed"
FIRST_WITH_ITERATIONS = 16

SETTINGS = {
    "synchronous_commit": "off",
    "autovacuum": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}


def main() -> None:
    """Runs until nobody holds the users' lock."""
    run_folder = Path(sys.argv[1])
    with (
        _data_folder(run_folder) as (folder, in_memory),
        EmbeddedPostgres(folder, settings=SETTINGS) as server,
    ):
        migrate(server.url, role_passwords={s: password_of(s) for s in SERVICES})
        _fit_for_tests(server.url)
        _make_logins_cheap(server)
        Started(url_of(server.url), "file_copy" if in_memory else "wal_log").write(run_folder)
        with users_file(run_folder).open("ab") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            # Still locked: who comes now waits, and finds that there is no server.
            started_file(run_folder).unlink()
            server.stop()


def _fit_for_tests(owner_url: str) -> None:
    """What a test's database has beyond a migrated one."""
    with psycopg.connect(owner_url, autocommit=True) as connection:
        hold_to_edges(connection)
        # A database is dropped whoever is still connected, and the owner is no superuser.
        for service in SERVICES:
            connection.execute(
                sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(role_of(service)))
            )


def _make_logins_cheap(server: EmbeddedPostgres) -> None:
    """Tests log in thousands of times; many rounds are for passwords that could be guessed."""
    if server.major_version < FIRST_WITH_ITERATIONS:
        return
    logins = {role_of(service): password_of(service) for service in SERVICES}
    owner = conninfo_to_dict(server.url)
    logins[str(owner["user"])] = str(owner["password"])
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET scram_iterations = 1")
        for role, password in logins.items():
            connection.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), password)
            )


@contextmanager
def _data_folder(run_folder: Path) -> Iterator[tuple[Path, bool]]:
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_BYTES_MIN
    if in_memory:
        _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY if in_memory else run_folder))
    try:
        with (folder / CLAIM).open("wb") as claim:
            fcntl.flock(claim, fcntl.LOCK_EX)
            yield folder / "data", in_memory
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned() -> None:
    """Data of keepers that were killed: their claim is no longer locked."""
    for claim in MEMORY.glob(f"{PREFIX}*/{CLAIM}"):
        try:
            with claim.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileNotFoundError, PermissionError):
            continue
        shutil.rmtree(claim.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
