"""Installs each peer where it can be installed, and drives it.

A Python peer gets a virtual environment from its hash-pinned lock, a Node peer its node_modules
from its package-lock; both below bench/.venvs, which is not kept in git.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.rounds import Effort

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "bench" / "peers"
ENVIRONMENTS = ROOT / "bench" / ".venvs"
NODE_FILES = ("package.json", "package-lock.json", ".npmrc")
MARK = ".installed-from"

PYTHON_OF_PEERS: Mapping[str, str] = MappingProxyType(
    {"pgqueuer": "3.11", "dbos": "3.11", "procrastinate": "3.11", "absurd": "3.11", "oban": "3.12"}
)
"""The Python that each is locked for; it is taken as it is found, never fetched."""

NODE_PEERS = ("graphile-worker", "pg-boss")
PEER_NAMES = (*PYTHON_OF_PEERS, *NODE_PEERS)


class PeerAbsentError(Exception):
    """The peer cannot be installed, or does not run here; the message is why."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """An installed peer."""

    name: str
    command: tuple[str, ...]

    def enqueued_per_s(self, database_url: str, payload: str, effort: Effort) -> float:
        """Jobs a second, enqueued one by one; raises PeerAbsentError when it fails."""
        load = [f"--tasks={effort.in_flight}", f"--seconds={effort.seconds}", "--payload", payload]
        done = json.loads(_run([*self.command, database_url, *load]).splitlines()[-1])
        return float(done["answered"] / done["seconds"])


def install(name: str) -> Peer:
    """The peer, installed anew when its lock changed. Raises PeerAbsentError."""
    lock = PEERS / name / ("package-lock.json" if name in NODE_PEERS else "requirements.lock")
    environment = ENVIRONMENTS / name
    mark = environment / MARK
    if not mark.is_file() or mark.read_text() != lock.read_text():
        shutil.rmtree(environment, ignore_errors=True)
        environment.mkdir(parents=True)
        (_install_on_node if name in NODE_PEERS else _install_on_python)(name, environment)
        mark.write_text(lock.read_text())
    return Peer(name=name, command=_command(name, environment))


def _install_on_python(name: str, environment: Path) -> None:
    uv = str(Path(sys.executable).parent / "uv")
    _run([uv, "venv", "--quiet", "--clear", "--python", PYTHON_OF_PEERS[name], str(environment)])
    lock = PEERS / name / "requirements.lock"
    python = str(environment / "bin" / "python")
    _run([uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(lock)])


def _install_on_node(name: str, environment: Path) -> None:
    for file in NODE_FILES:
        shutil.copy(PEERS / name / file, environment / file)
    _run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", f"--prefix={environment}"])


def _command(name: str, environment: Path) -> tuple[str, ...]:
    if name in PYTHON_OF_PEERS:
        return (str(environment / "bin" / "python"), str(PEERS / name / "enqueue.py"))
    # Node looks for packages beside the script.
    shutil.copy(PEERS / name / "enqueue.mjs", environment / "enqueue.mjs")
    shutil.copy(ROOT / "bench" / "one_by_one.mjs", environment / "one_by_one.mjs")
    return ("node", str(environment / "enqueue.mjs"))


def _run(command: list[str]) -> str:
    inherited = os.environ  # noqa: TID251 - handed on, not read
    environment = {**inherited, "PYTHONPATH": str(ROOT), "UV_PYTHON_DOWNLOADS": "never"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise PeerAbsentError(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        why = next((line for line in said if line.startswith("error")), " ".join(said[-1:]))
        raise PeerAbsentError(why.strip())
    return done.stdout
