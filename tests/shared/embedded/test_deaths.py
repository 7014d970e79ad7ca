"""Whatever dies, and whenever: the next start finds what was committed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from shared.embedded import EmbeddedPostgres, claim, lifeline, occupants
from shared.embedded.errors import FolderInUseError
from shared.embedded.folder import DataFolder
from shared.embedded.occupants import Occupants
from tests.shared.embedded.processes import (
    CLAIMER,
    PARENT,
    cluster_state,
    first_line,
    foreground,
    living_in,
    postmaster_in,
    python,
    until_empty,
)
from tests.waiting import until_sync


def remember(url: str) -> None:
    """Commits something to be found again."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def assert_remembered(url: str) -> None:
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def kill_server(database: EmbeddedPostgres) -> None:
    """Kills the postmaster as a machine out of memory would."""
    assert database.process_id is not None
    os.kill(database.process_id, signal.SIGKILL)
    until_sync(lambda: database.process_id is None, what="the server to be dead")


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_database_shuts_down_cleanly_when_its_parent_dies(
    data_folder: Path, death: signal.Signals
) -> None:
    with python("-c", PARENT, str(data_folder)) as parent:
        remember(first_line(parent))
        parent.send_signal(death)
    until_empty(data_folder)
    assert cluster_state(data_folder) == "shut down"
    with EmbeddedPostgres(data_folder) as database:
        assert_remembered(database.url)
        assert "was not properly shut down" not in database.log_file.read_text()


def test_the_next_start_waits_for_a_shutdown_under_way(data_folder: Path) -> None:
    with python("-c", PARENT, str(data_folder)) as parent:
        remember(first_line(parent))
        parent.kill()
    with EmbeddedPostgres(data_folder) as database:
        assert_remembered(database.url)


def test_a_first_start_that_was_killed_half_way_is_done_anew(new_folder: Path) -> None:
    with foreground(new_folder) as parent:
        until_sync((new_folder / "cluster.unfinished").exists, what="a cluster being made")
        parent.kill()
    with EmbeddedPostgres(new_folder) as database:
        remember(database.url)


def test_a_killed_server_is_recovered(database: EmbeddedPostgres) -> None:
    database.start()
    remember(database.url)
    kill_server(database)
    database.start()
    assert_remembered(database.url)
    assert "was not properly shut down" in database.log_file.read_text()


def test_a_parent_and_its_server_killed_at_once_are_recovered(data_folder: Path) -> None:
    with python("-c", PARENT, str(data_folder)) as parent:
        remember(first_line(parent))
        postmaster = postmaster_in(data_folder)
        os.kill(postmaster, signal.SIGKILL)
        parent.kill()
    with EmbeddedPostgres(data_folder) as database:
        assert_remembered(database.url)


@contextmanager
def one_orphan(database: EmbeddedPostgres) -> Iterator[int]:
    """Kills the server and leaves one stuck child of it."""
    data_folder = database.log_file.parent
    with psycopg.connect(database.url) as connection:
        orphan = connection.info.backend_pid
        os.kill(orphan, signal.SIGSTOP)
        try:
            kill_server(database)
            until_sync(lambda: living_in(data_folder).orphans == (orphan,), what="one orphan alone")
            yield orphan
        finally:
            with suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
            connection.close()


def test_a_child_that_has_no_title_yet_is_not_taken_for_the_server(
    database: EmbeddedPostgres, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.start()
    title = occupants.postgres_title
    monkeypatch.setattr(
        occupants,
        "postgres_title",
        lambda process, cluster: title(process, cluster) and b"/bin/postgres\0-D\0...",
    )
    living = living_in(data_folder)
    assert living.postmaster == database.process_id
    assert len(living.children) >= 3


def test_orphans_that_do_not_end_are_ended(
    database: EmbeddedPostgres, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.start()
    remember(database.url)
    monkeypatch.setattr(claim, "ORPHAN_GRACE_S", 0.1)
    with one_orphan(database) as orphan:
        database.start()
        assert orphan not in living_in(data_folder).children
    assert_remembered(database.url)


def test_orphans_keep_the_folder_locked_while_they_live(
    database: EmbeddedPostgres, data_folder: Path
) -> None:
    database.start()
    lock = os.open(data_folder / "lock", os.O_RDWR)
    with one_orphan(database):
        assert not claim.try_lock(lock)
    until_sync(lambda: claim.try_lock(lock), what="the lock to be free")
    os.close(lock)


def test_a_postmaster_file_that_names_a_dead_process_is_stale(data_folder: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    write_postmaster_file(data_folder, ended.pid)
    with EmbeddedPostgres(data_folder) as database:
        psycopg.connect(database.url).close()


def test_a_postmaster_file_that_names_another_program_is_stale(data_folder: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:
        write_postmaster_file(data_folder, stranger.pid)
        with EmbeddedPostgres(data_folder) as database:
            psycopg.connect(database.url).close()
        assert stranger.poll() is None


@pytest.mark.parametrize("torn", ["", "\n", "12"])
def test_a_torn_postmaster_file_does_not_confuse_the_claim(tmp_path: Path, torn: str) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "postmaster.pid").write_text(torn)
    lock = os.open(tmp_path / "lock", os.O_RDWR)
    with claim.claimed(DataFolder(tmp_path)):
        assert not claim.try_lock(lock)
    assert claim.try_lock(lock)
    os.close(lock)


def test_a_start_under_way_elsewhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "PATIENCE_S", 0.1)
    with python("-c", CLAIMER, str(tmp_path)) as starter:
        first_line(starter)
        with pytest.raises(FolderInUseError, match=f"process {starter.pid}, which is starting it"):
            EmbeddedPostgres(tmp_path).start()
        starter.kill()


def test_what_a_dead_start_left_running_is_waited_for(tmp_path: Path) -> None:
    folder, empty = DataFolder(tmp_path), Occupants(postmaster=None, children=())
    ended = subprocess.Popen(["true"])
    ended.wait()
    for starter in (ended.pid, os.getpid(), None):
        assert claim.patience_s(folder, empty, starter) == claim.STOP_PATIENCE_S
    assert claim.patience_s(folder, empty, os.getppid()) == claim.PATIENCE_S


def test_a_server_started_by_hand_is_respected(
    database: EmbeddedPostgres, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.start()
    # As if it held no lock: another lock file takes the place of the one it inherited.
    (data_folder / "lock").unlink()
    (data_folder / "lock").touch()
    monkeypatch.setattr(claim, "PATIENCE_S", 0)
    with pytest.raises(FolderInUseError, match=f"PostgreSQL process {database.process_id}"):
        EmbeddedPostgres(data_folder).start()
    psycopg.connect(database.url).close()


def test_a_child_of_a_dead_parent_does_not_start_at_all() -> None:
    own_parent_is_not = str(os.getppid())
    answer = subprocess.run(
        [sys.executable, "-I", "-S", lifeline.__file__, own_parent_is_not, "/bin/echo", "started"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "has died" in answer.stderr


def write_postmaster_file(data_folder: Path, process_id: int) -> None:
    """A postmaster.pid as a server leaves it behind when the machine goes down."""
    cluster = data_folder / "cluster"
    lines = [
        str(process_id),
        str(cluster),
        "1700000000",
        "5432",
        "",
        "127.0.0.1",
        "0 0",
        "ready   ",
    ]
    (cluster / "postmaster.pid").write_text("\n".join(lines) + "\n")
