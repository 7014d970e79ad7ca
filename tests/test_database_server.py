"""The tests' own database server: shared by processes, gone when the last of them is, however."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from shared.schema.grants import SERVICES
from tests.database_server import DatabaseServer, as_service
from tests.waiting import until_sync

USER = """
import pathlib, sys
from tests.database_server import DatabaseServer
server = DatabaseServer.of_run(pathlib.Path(sys.argv[1]))
print(server.new_database(), flush=True)
sys.stdin.read()
"""


def user_of(run_folder: Path) -> "subprocess.Popen[str]":
    """A process that uses the run's server until its stdin ends."""
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(run_folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: "subprocess.Popen[str]") -> str:
    """The URL of its database."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def listens(url: str) -> bool:
    """Whether somebody listens where the URL says."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(str(conninfo_to_dict(url)["port"])))) == 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_it_is_shared_and_ends_with_the_last_process(tmp_path: Path, end: signal.Signals) -> None:
    first, second = user_of(tmp_path), user_of(tmp_path)
    with first, second:
        urls = [said(first), said(second)]
        ports = {conninfo_to_dict(url)["port"] for url in urls}
        names = {conninfo_to_dict(url)["dbname"] for url in urls}
        assert (len(ports), len(names)) == (1, 2)
        first.send_signal(end)
        first.wait()
        psycopg.connect(urls[1]).close()
        second.send_signal(end)
        second.wait()
    until_sync(lambda: not listens(urls[0]), what="the server to have ended")
    until_sync(lambda: not (tmp_path / "started.json").exists(), what="the end to be told")


def test_each_database_is_migrated_empty_and_open_to_each_role(
    database_server: DatabaseServer,
) -> None:
    url = database_server.new_database()
    for service in SERVICES:
        with psycopg.connect(as_service(url, service)) as connection:
            row = connection.execute("SELECT count(*) FROM fencepost.schema_revision").fetchone()
            assert row == (1,)
    with psycopg.connect(as_service(url, "ingress")) as still_connected:
        still_connected.execute("SELECT 1")
        database_server.drop(url)
        with pytest.raises(psycopg.OperationalError):
            still_connected.execute("SELECT 1")
