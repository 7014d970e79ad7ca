"""The fallback: a PostgreSQL that the system brought."""

import os
import signal
from pathlib import Path

import psycopg
import pytest

from shared.embedded import EmbeddedPostgres
from shared.embedded.binaries import Binaries, choose_binaries, folders_on_path, system_folders
from shared.embedded.errors import BinariesMissingError, MajorVersionDiffersError
from tests.shared.embedded.processes import cluster_state
from tests.waiting import until_sync


@pytest.fixture
def system_binaries() -> Binaries:
    """The system's own programs."""
    try:
        return choose_binaries([*folders_on_path(), *system_folders()])
    except BinariesMissingError as missing:
        pytest.skip(str(missing))


def test_a_system_postgresql_does_all_the_same(new_folder: Path, system_binaries: Binaries) -> None:
    database = EmbeddedPostgres(new_folder, binaries=system_binaries)
    with database:
        assert database.major_version == system_binaries.major_version
        with psycopg.connect(database.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
            answer = connection.execute(
                "SELECT current_setting('server_version_num')::int / 10000, upper('é'),"
                " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
            ).fetchone()
        assert answer == (system_binaries.major_version, "É", False)
        assert database.process_id is not None
        os.kill(database.process_id, signal.SIGKILL)
        until_sync(lambda: database.process_id is None, what="the server to be dead")
        database.start()
        with psycopg.connect(database.url) as connection:
            assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    assert cluster_state(new_folder, system_binaries) == "shut down"


def test_its_folder_is_not_opened_by_another_major_version(
    data_folder: Path, system_binaries: Binaries
) -> None:
    made_by = EmbeddedPostgres(data_folder).major_version
    if made_by == system_binaries.major_version:
        pytest.skip("the system's PostgreSQL is of the embedded one's version")
    with pytest.raises(MajorVersionDiffersError, match=f"run it with PostgreSQL {made_by}"):
        EmbeddedPostgres(data_folder, binaries=system_binaries).start()
