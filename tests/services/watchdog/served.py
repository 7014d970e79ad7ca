"""The watchdog as a process of its own, on free ports."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import until_sync

ROOT = Path(__file__).parents[3]
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0

ENVIRONMENT = {
    "WATCHDOG_GRPC_ADDRESS": "127.0.0.1:0",
    "WATCHDOG_ADMIN_ADDRESS": "127.0.0.1:0",
    "WATCHDOG_DRAIN_GRACE_MS": "1000",
    "WATCHDOG_LOG_FORMAT": "json",
}


@dataclass
class Served:
    """A running watchdog; addresses are host:port."""

    process: "subprocess.Popen[str]"
    logs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def serving(self) -> dict[str, Any] | None:
        """The log entry that says that it serves."""
        return next((entry for entry in self.logs if entry.get("event") == "serving"), None)

    @property
    def grpc(self) -> str:
        """Where callers call."""
        assert self.serving is not None
        return str(self.serving["grpc"])

    @property
    def admin(self) -> str:
        """Where probes ask."""
        assert self.serving is not None
        return str(self.serving["admin"])

    def read(self) -> None:
        """Collects the log until the process ends."""
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.logs.append(json.loads(line) if line.startswith("{") else {"event": line})


@contextmanager
def served(database_url: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Starts a watchdog, and stops it by SIGTERM at the end of the block; it must end well."""
    variables = {**ENVIRONMENT, "WATCHDOG_DATABASE_URL": database_url, **(environment or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "services.watchdog"],
        cwd=ROOT,
        env=variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    running = Served(process)
    reader = threading.Thread(target=running.read)
    reader.start()
    try:
        until_sync(
            lambda: running.serving or process.poll() is not None,
            deadline_s=START_TIMEOUT_S,
            what="the watchdog to serve",
        )
        assert process.poll() is None, running.logs
        yield running
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0, running.logs
    finally:
        process.kill()
        process.wait()
        reader.join()


@asynccontextmanager
async def served_beside(url: str, environment: dict[str, str]) -> AsyncIterator[Served]:
    """The process, started and stopped without holding this loop, which serves its database."""
    running = served(url, environment)
    watchdog = await asyncio.to_thread(running.__enter__)
    try:
        yield watchdog
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
