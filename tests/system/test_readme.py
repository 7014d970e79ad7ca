"""Goal: who follows the README for a repository of theirs gets a review there.

Method: its own command lines, with a scripted forge in the place of GitHub and free ports.
"""

import hashlib
import hmac
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from examples.demo.cast import PAYLOAD, Pull
from examples.scripted_forge.client import PullFixture, ScriptedForge
from services.suite import Suite
from tests.sdk.cli.terminal import Shell
from tests.waiting import until_sync

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
STOPPED_WITHIN_S = 30.0


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[ScriptedForge]:
    with ScriptedForge.start(tmp_path / "forge") as forge:
        yield forge


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Suite]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}  # noqa: TID251  (handed on)
    with Suite(tmp_path / "suite", environment=environment, free_ports=True) as suite:
        yield suite


@contextmanager
def bot_of_the_readme(suite: Suite, log: Path) -> Iterator[None]:
    """Runs the lines that start the bot, as a shell would."""
    [block] = [block for block in BLOCKS if "examples.demo_bot" in block]
    lines = re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
    for shown, here in (
        (". .fencepost/keys.env", f". {shlex.quote(str(suite.keys_file))}"),
        ("127.0.0.1:7102", suite.addresses.grpc["dispatcher"]),
        ("127.0.0.1:7103", suite.addresses.grpc["publisher"]),
        (".venv/bin/python", shlex.quote(sys.executable)),
    ):
        assert shown in lines
        lines = lines.replace(shown, here)
    with log.open("wb") as output:
        shell = subprocess.Popen(
            ["sh", "-c", lines], cwd=ROOT, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(STOPPED_WITHIN_S)


def init_of_the_readme(suite: Suite, forge: ScriptedForge, folder: Path, repo: str) -> str:
    """Runs the line that sets the repository up, with what it would ask; returns the answer."""
    [shown] = re.findall(r"^\$ \.venv/bin/fencepost (init .+)$", README, re.MULTILINE)
    (folder / "forge.token").write_text(forge.token)
    environment = {
        "FENCEPOST_API_KEY": suite.credentials["OPERATOR_API_KEY"],
        "FENCEPOST_INGRESS": suite.addresses.grpc["ingress"],
        "FENCEPOST_PUBLISHER": suite.addresses.grpc["publisher"],
    }
    asked = ["--token-file", "forge.token", "--door", f"http://{suite.addresses.webhooks}"]
    told = Shell(folder, environment).run(
        *shlex.split(shown.replace("OWNER/NAME", repo)), *asked, "--base-url", forge.url
    )
    assert told.code == 0, told
    return told.out


def test_what_it_asks_is_answered(suite: Suite, tmp_path: Path) -> None:
    [block] = [block for block in BLOCKS if "fencepost status" in block]
    commands = re.findall(r"^\$ fencepost (.+)$", block, re.MULTILINE)
    (tmp_path / ".fencepost").symlink_to(suite.keys_file.parent)
    shell = Shell(
        tmp_path,
        {
            "FENCEPOST_INGRESS": suite.addresses.grpc["ingress"],
            "FENCEPOST_WATCHDOG": suite.addresses.grpc["watchdog"],
        },
    )
    told = {line: shell.run_in_terminal(*shlex.split(line, comments=True)) for line in commands}
    assert [answer for answer in told.values() if answer.code != 0] == []
    assert len(told) == 4


def deliver(body: bytes, *, to: str, secret: str) -> None:
    """Posts a pull request as GitHub does."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "content-type": "application/json",
        "x-github-event": "pull_request",
        "x-github-delivery": str(uuid.uuid4()),
        "x-hub-signature-256": f"sha256={signature}",
    }
    httpx.post(to, content=body, headers=headers, timeout=30).raise_for_status()


def test_a_repository_of_ones_own_gets_a_review(
    suite: Suite, forge: ScriptedForge, tmp_path: Path
) -> None:
    pull = Pull.of(PAYLOAD.read_bytes())
    fixture = PullFixture(number=pull.number, head_sha=pull.head_sha, base_sha=pull.base_sha)
    forge.add_repo(pull.repo_name, fixture, repo_id=pull.repo_id)
    told = init_of_the_readme(suite, forge, tmp_path, pull.repo_name)
    assert f"Its token reads {pull.repo_name}" in told
    entered = dict(re.findall(r"^(Address|Secret) +(?:the content of )?(\S+)$", told, re.MULTILINE))
    with bot_of_the_readme(suite, tmp_path / "bot.log"):
        secret = (tmp_path / entered["Secret"]).read_text().strip()
        deliver(pull.body, to=entered["Address"], secret=secret)
        until_sync(
            lambda: forge.reviews(pull.repo_name, pull.number), deadline_s=60, what="the review"
        )
