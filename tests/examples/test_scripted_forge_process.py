"""The forge as a process: what it has answered for it still knows after any end."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.child_process import ROOT
from examples.scripted_forge.client import ScriptedForge
from tests.examples.judged import NUMBER, judged_repo


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a forge of the test's own."""
    return tmp_path / "forge"


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_state_log_and_faults_outlive_the_process(folder: Path, end: str) -> None:
    first = ScriptedForge.start(folder)
    with judged_repo(first) as repo:
        repo.review("Before the end.")
        first.fault("status", status=503, times=2)
        full_name, logged = repo.full_name, first.requests()
    getattr(first, end)()

    with ScriptedForge.start(folder, token=first.token) as second:
        assert [one.body for one in second.reviews(full_name, NUMBER)] == ["Before the end."]
        assert second.requests()[: len(logged)] == logged
        assert second.pending_faults() == 2


def test_no_file_of_the_forge_holds_its_token(folder: Path) -> None:
    with ScriptedForge.start(folder) as forge, judged_repo(forge) as repo:
        repo.review()
        stored = b"".join(path.read_bytes() for path in folder.iterdir())

        assert b"Looks right." in stored
        assert forge.token.encode() not in stored


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.scripted_forge", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=20, check=False
    )


def test_it_does_not_start_without_a_token(folder: Path) -> None:
    ended = _run("--data", str(folder))

    assert ended.returncode == 1
    assert ended.stderr.startswith("set FORGE_TOKEN or FORGE_TOKEN_FILE")


def test_a_folder_or_port_in_use_is_said_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    with ScriptedForge.start(folder) as forge:
        address = forge.url.removeprefix("http://")
        second = _run("--data", str(folder), "--address", "127.0.0.1:0", FORGE_TOKEN="t")
        third = _run("--data", str(tmp_path / "b"), "--address", address, FORGE_TOKEN="t")

    assert second.stderr == f"{folder} is in use by another scripted forge\n"
    assert third.stderr == f"cannot listen on {address}: Address already in use\n"
    assert (second.returncode, third.returncode) == (1, 1)


def test_the_token_may_come_from_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    environment = {"FORGE_TOKEN": "", "FORGE_TOKEN_FILE": str(tmp_path / "token")}

    forge = ScriptedForge.start(folder, token="from-a-file", environment=environment)

    with forge:
        assert forge.requests() == []
