"""Starting and stopping: ports, settings, threads, two at once."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from shared.embedded import EmbeddedPostgres, claim, server
from shared.embedded.errors import (
    AlreadyStartedError,
    EmbeddedPostgresError,
    FolderInUseError,
    NotStartedError,
    PortUnavailableError,
    SettingReservedError,
    StartedOffMainThreadError,
    StartFailedError,
)
from tests.shared.embedded.processes import (
    cluster_state,
    first_line,
    foreground,
    living_in,
    postmaster_in,
)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_there_is_no_address_before_the_first_start(database: EmbeddedPostgres) -> None:
    with pytest.raises(NotStartedError, match=r"call start\(\) first"):
        _ = database.url


def test_the_free_port_is_kept_for_later_starts(database: EmbeddedPostgres) -> None:
    database.start()
    url = database.url
    database.stop()
    database.start()
    assert database.url == url


def test_a_given_port_is_used(data_folder: Path) -> None:
    port = server.free_port()
    with EmbeddedPostgres(data_folder, port=port) as database:
        assert f"127.0.0.1:{port}/" in database.url
        psycopg.connect(database.url).close()


def test_a_taken_port_says_what_to_do(data_folder: Path, taken_port: int) -> None:
    database = EmbeddedPostgres(data_folder, port=taken_port)
    with pytest.raises(PortUnavailableError) as caught:
        database.start()
    sentence = str(caught.value)
    assert f"Port {taken_port} on 127.0.0.1" in sentence
    assert "Address already in use" in sentence
    assert "choose another port" in sentence
    assert not living_in(data_folder).any
    assert cluster_state(data_folder) == "shut down"


def test_a_port_lost_to_somebody_quicker_is_replaced(
    database: EmbeddedPostgres, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = server.free_port()
    offered = iter([taken_port, free])
    monkeypatch.setattr(server, "free_port", lambda: next(offered))
    database.start()
    assert database.port == free


def test_settings_reach_the_server(data_folder: Path) -> None:
    settings = {"max_connections": "17", "log_line_prefix": "it's %p "}
    with EmbeddedPostgres(data_folder, settings=settings) as database:
        with psycopg.connect(database.url) as connection:
            assert connection.execute("SHOW max_connections").fetchone() == ("17",)
        assert "it's " in database.log_file.read_text()


@pytest.mark.parametrize("name", ["fsync", "FSYNC", "listen_addresses", "port"])
def test_what_safety_rests_on_is_not_for_the_caller(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingReservedError, match=name.lower()):
        EmbeddedPostgres(tmp_path, settings={name: "off"})


def test_a_setting_the_server_refuses_is_quoted_from_its_log(data_folder: Path) -> None:
    database = EmbeddedPostgres(data_folder, settings={"max_connections": "many"})
    with pytest.raises(StartFailedError) as caught:
        database.start()
    assert 'invalid value for parameter "max_connections": "many"' in str(caught.value)
    assert str(database.log_file) in str(caught.value)


def test_only_this_start_is_quoted(data_folder: Path) -> None:
    with pytest.raises(StartFailedError, match="first_fault"):
        EmbeddedPostgres(data_folder, settings={"first_fault": "1"}).start()
    with pytest.raises(StartFailedError, match="second_fault") as caught:
        EmbeddedPostgres(data_folder, settings={"second_fault": "1"}).start()
    assert "first_fault" not in str(caught.value)


def test_a_long_log_is_put_aside(data_folder: Path) -> None:
    log_file = data_folder / "postgres.log"
    with log_file.open("ab") as log:
        log.truncate(17 * 2**20)
    with EmbeddedPostgres(data_folder):
        assert 0 < log_file.stat().st_size < 2**20
    assert (data_folder / "postgres.log.1").stat().st_size == 17 * 2**20


def test_another_thread_may_not_start_it(database: EmbeddedPostgres) -> None:
    caught: list[EmbeddedPostgresError] = []

    def start() -> None:
        try:
            database.start()
        except EmbeddedPostgresError as error:
            caught.append(error)

    thread = threading.Thread(target=start, name="helper")
    thread.start()
    thread.join()
    assert isinstance(caught[0], StartedOffMainThreadError)
    assert "'helper'" in str(caught[0])
    assert "from the main thread" in str(caught[0])


def test_starting_twice_is_a_mistake(database: EmbeddedPostgres) -> None:
    database.start()
    with pytest.raises(AlreadyStartedError, match=f"process {database.process_id}"):
        database.start()


def test_stopping_ends_every_process_and_may_be_repeated(database: EmbeddedPostgres) -> None:
    database.start()
    connection = psycopg.connect(database.url)
    database.stop()
    assert database.process_id is None
    assert not living_in(database.log_file.parent).any
    assert cluster_state(database.log_file.parent) == "shut down"
    database.stop()
    connection.close()


def test_a_server_that_is_never_ready_is_not_left_behind(
    database: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as impatient:
        impatient.setattr(server, "READY_TIMEOUT_S", 0)
        with pytest.raises(StartFailedError, match="was not ready within 0 s"):
            database.start()
    assert database.process_id is None
    database.start()


def test_ctrl_c_in_a_terminal_is_not_for_the_server(running: EmbeddedPostgres) -> None:
    assert running.process_id is not None
    assert os.getsid(running.process_id) != os.getsid(0)


def test_a_server_that_does_not_stop_is_cut_off_and_loses_nothing(
    database: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.start()
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE kept ()")
    monkeypatch.setattr(server, "STOP_TIMEOUT_S", 0)
    database.stop()
    assert not living_in(database.log_file.parent).any
    database.start()
    with psycopg.connect(database.url) as connection:
        connection.execute("SELECT FROM kept")


def test_a_second_start_on_the_folder_is_told_who_is_there(
    database: EmbeddedPostgres, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.start()
    monkeypatch.setattr(claim, "PATIENCE_S", 0)
    second = EmbeddedPostgres(data_folder)
    with pytest.raises(FolderInUseError) as caught:
        second.start()
    sentence = str(caught.value)
    assert f"in use by PostgreSQL process {database.process_id}" in sentence
    assert f"kill -INT {database.process_id}" in sentence
    assert "a data folder of its own" in sentence
    psycopg.connect(database.url).close()


def test_of_two_first_starts_at_once_one_wins(new_folder: Path) -> None:
    racers = [foreground(new_folder) for _ in range(2)]
    try:
        lines = [racer.stdout.readline() for racer in racers if racer.stdout]
        winner = racers[0] if lines[0] else racers[1]
        loser = racers[1] if lines[0] else racers[0]
        assert sorted(map(bool, lines)) == [False, True]
        assert "is in use by" in loser.communicate(timeout=30)[1]
        assert loser.returncode == 1
        winner.terminate()
        assert winner.wait(30) == 0
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def test_the_foreground_command_prints_no_password_and_stops_on_signals(
    data_folder: Path,
) -> None:
    port = server.free_port()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        process = foreground(data_folder, "--port", str(port))
        with process:
            assert first_line(process) == (
                f"postgresql://fencepost_owner@127.0.0.1:{port}/fencepost"
            )
            process.send_signal(stop_signal)
            said = process.communicate(timeout=30)[1]
        assert said == f"The password is in PGPASSFILE={data_folder / 'pgpass'}\n"
        assert process.returncode == 0
        assert cluster_state(data_folder) == "shut down"


def test_the_foreground_command_ends_with_its_server(data_folder: Path) -> None:
    with foreground(data_folder) as process:
        first_line(process)
        os.kill(postmaster_in(data_folder), signal.SIGKILL)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 1
    assert f"ended by itself with code -9: see its log {data_folder}" in said
