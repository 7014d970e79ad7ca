"""What the image holds, and what it does without being told anything."""

import json
import os
import subprocess
from typing import Any

import pytest

from tests.containers.deployment import SERVICES, docker

IMAGE = os.environ["FENCEPOST_IMAGE"]  # noqa: TID251 - names the image under test
TOOLS = ("gcc", "cc", "c++", "ld", "make", "as")


def in_image(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a container of the image that is gone afterwards."""
    confined = ["--rm", "--read-only", "--network=none", "--cap-drop=ALL"]
    command = ["docker", "run", *confined, IMAGE, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    [image] = json.loads(docker("image", "inspect", IMAGE))
    found: dict[str, Any] = image["Config"]
    return found


def test_it_runs_as_an_ordinary_user_with_a_name(config: dict[str, Any]) -> None:
    assert config["User"] == "10001:10001"
    assert in_image("id").stdout.startswith("uid=10001(fencepost) gid=10001(fencepost)")


def test_it_stops_by_sigterm_and_says_whether_it_is_ready(config: dict[str, Any]) -> None:
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"][-1] == "deploy/healthcheck.py"


def test_no_compiler_and_no_installer_is_left() -> None:
    found = in_image("sh", "-c", f"for tool in {' '.join(TOOLS)}; do command -v $tool; done; :")
    assert (found.returncode, found.stdout) == (0, "")
    assert "No module named pip" in in_image("python", "-m", "pip").stderr


def test_it_holds_the_suite_and_nothing_else() -> None:
    listed = in_image("ls", "-A", "/app").stdout.split()
    assert set(listed) == {
        *("services", "shared", "sdk", "protos", "deploy", "pyproject.toml"),
        *("requirements.lock", "requirements-install.lock", "LICENSE", "README.md"),
    }


def test_what_it_runs_cannot_be_changed_by_who_runs_it() -> None:
    writable = in_image("find", "/app", "/venv", "-writable", "-not", "-type", "l")
    assert (writable.returncode, writable.stdout) == (0, "")


def test_its_bytecode_is_made() -> None:
    sources = in_image("find", "/app", "-name", "*.py").stdout.split()
    compiled = in_image("find", "/app", "-name", "*.pyc").stdout.split()
    assert len(compiled) == len(sources) > 100


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_without_settings_says_what_it_needs(service: str) -> None:
    ended = in_image("python", "-m", f"services.{service}")
    assert ended.returncode == 2
    assert f"{service.upper()}_DATABASE_URL" in ended.stderr


@pytest.mark.parametrize("command", [["migrate"], ["bootstrap", "--output", "/tmp/keys"]])
def test_a_step_without_settings_says_what_it_needs(command: list[str]) -> None:
    ended = in_image("python", "-m", "services", *command)
    assert ended.returncode == 2
    assert "DATABASE_URL" in ended.stderr


def test_the_embedded_database_refuses_root_with_a_sentence() -> None:
    as_root = ["docker", "run", "--rm", "--user=0", "--cap-drop=ALL", "--tmpfs=/tmp", IMAGE]
    suite = ["python", "-m", "services", "--data-folder=/tmp/data"]
    ended = subprocess.run(
        [*as_root, *suite], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert "run this as an ordinary user" in ended.stderr


def test_the_command_line_is_there() -> None:
    assert "timeline" in in_image("fencepost", "--help").stdout
