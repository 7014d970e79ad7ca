"""A project of `docker compose` under test, and what an outsider can see of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.embedded.server import free_port
from tests.waiting import until_sync

REPOSITORY = Path(__file__).parents[2]
SERVICES = ("ingress", "dispatcher", "publisher", "watchdog")
HEALTHY_WITHIN_S = 90.0
COMMAND_WITHIN_S = 120.0
PUBLISHED = ("WEBHOOKS", "INGRESS", "DISPATCHER", "PUBLISHER", "WATCHDOG", "FORGE", "SPANS")


def free_addresses() -> dict[str, str]:
    """Free ports of this machine to publish on, out of the way of a suite that runs here."""
    return {f"PUBLISH_{name}": f"127.0.0.1:{free_port()}" for name in PUBLISHED}


def docker(*words: str, environment: Mapping[str, str] | None = None, said: str = "") -> str:
    """What a docker command says; fails the test with its complaint."""
    done = subprocess.run(
        ["docker", *words],
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},  # noqa: TID251 - names the engine
        input=said,
        capture_output=True,
        text=True,
        timeout=COMMAND_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"docker {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Deployment:
    """One project; its variables are what a person would put into `.env`."""

    project: str
    files: Sequence[str]
    variables: Mapping[str, str]

    def compose(self, *words: str, said: str = "") -> str:
        """What `docker compose` says."""
        files = [word for file in self.files for word in ("--file", file)]
        return docker(
            "compose",
            *("--project-name", self.project, "--project-directory", str(REPOSITORY), *files),
            *words,
            environment=self.variables,
            said=said,
        )

    def up(self) -> None:
        """Brings everything up, waits for what has a health check, and for the last step."""
        self.compose("up", "--detach", "--no-build")
        self.await_health()
        until_sync(
            lambda: "endpoints" not in self.running(),
            deadline_s=HEALTHY_WITHIN_S,
            what="endpoints to be declared",
        )

    def await_health(self) -> None:
        """Waits until what has a health check is healthy."""
        until_sync(
            lambda: set(self.healths().values()) == {"healthy"},
            deadline_s=HEALTHY_WITHIN_S,
            what="every container to be healthy",
        )

    def healths(self) -> dict[str, str]:
        """The health of the running services that have a check."""
        return {
            service: one["State"]["Health"]["Status"]
            for service, one in self.running().items()
            if "Health" in one["State"]
        }

    def running(self) -> dict[str, dict[str, Any]]:
        """What the engine knows of each running container, by service."""
        identifiers = self.compose("ps", "--quiet").split()
        found = json.loads(docker("inspect", *identifiers)) if identifiers else []
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def exit_codes(self) -> dict[str, int]:
        """How each container that is stopped ended, by service."""
        identifiers = self.compose("ps", "--all", "--quiet").split()
        return {
            one["Config"]["Labels"]["com.docker.compose.service"]: one["State"]["ExitCode"]
            for one in json.loads(docker("inspect", *identifiers))
            if not one["State"]["Running"]
        }

    def exec(self, service: str, *words: str) -> str:
        """What a command says inside a service's container."""
        return self.compose("exec", "--no-TTY", service, *words)

    def copy(self, source: str, target: Path) -> str:
        """Brings a file out of a container, stopped or not, and gives its text."""
        self.compose("cp", source, str(target))
        return target.read_text()


@contextmanager
def deployed(deployment: Deployment) -> Iterator[Deployment]:
    """Up while the block runs; afterwards nothing of it is left."""
    try:
        try:
            deployment.up()
        except BaseException:
            sys.stderr.write(deployment.compose("logs", "--no-color", "--tail", "30"))
            raise
        yield deployment
    finally:
        deployment.compose("down", "--volumes", "--timeout", "10")
