"""The publisher as a process of its own, on free ports."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.scripted_forge.client import ScriptedForge
from tests.waiting import until_sync

ROOT = Path(__file__).parents[3]
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


@dataclass
class Served:
    """A publisher that runs, and what it has logged."""

    process: "subprocess.Popen[str]"
    logs: list[dict[str, Any]] = field(default_factory=list)

    def logged(self, event: str) -> dict[str, Any] | None:
        """The first log entry of this event."""
        return next((entry for entry in self.logs if entry.get("event") == event), None)

    @property
    def grpc(self) -> str:
        """host:port that callers call."""
        serving = self.logged("serving")
        assert serving is not None
        return str(serving["grpc"])

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait()

    def ask_to_stop(self) -> None:
        """Sends SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def stopped(self) -> int:
        """Waits for its end after SIGTERM; returns the exit status."""
        return self.process.wait(STOP_TIMEOUT_S)

    def collect(self) -> None:
        """Reads its log until it ends."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.logs.append(json.loads(line) if line.startswith("{") else {"event": line})


@contextmanager
def served(
    database_url: str, forge: ScriptedForge, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Starts a publisher; one that the block did not end is ended by SIGTERM and must end well."""
    variables = {
        "PUBLISHER_DATABASE_URL": database_url,
        "PUBLISHER_GRPC_ADDRESS": "127.0.0.1:0",
        "PUBLISHER_ADMIN_ADDRESS": "127.0.0.1:0",
        "PUBLISHER_FORGE_URL": forge.url,
        "PUBLISHER_FORGE_TOKEN": forge.token,
        "PUBLISHER_LOG_FORMAT": "json",
        **(environment or {}),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "services.publisher"],
        cwd=ROOT,
        env={"PATH": os.defpath, **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    running = Served(process)
    collector = threading.Thread(target=running.collect)
    collector.start()
    try:
        until_sync(
            lambda: running.logged("serving") or process.poll() is not None,
            deadline_s=START_TIMEOUT_S,
            what="the publisher to serve",
        )
        assert process.poll() is None, running.logs
        yield running
        if process.poll() is None:
            running.ask_to_stop()
            assert running.stopped() == 0, running.logs
    finally:
        process.kill()
        process.wait()
        collector.join()
        assert process.stderr is not None
        process.stderr.close()
