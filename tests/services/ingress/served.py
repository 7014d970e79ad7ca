"""Ingress as a process of its own, on free ports."""

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

from tests.services.ingress.registered import KEYRING_TEXT
from tests.waiting import until_sync

ROOT = Path(__file__).parents[3]
STOP_TIMEOUT_S = 15.0

ENVIRONMENT = {
    "INGRESS_SEALING_KEYS": KEYRING_TEXT,
    "INGRESS_GRPC_ADDRESS": "127.0.0.1:0",
    "INGRESS_ADMIN_ADDRESS": "127.0.0.1:0",
    "INGRESS_WEBHOOK_ADDRESS": "127.0.0.1:0",
    "INGRESS_DISPATCHER_ADDRESS": "127.0.0.1:9",
    "INGRESS_DRAIN_GRACE_MS": "1000",
    "INGRESS_LOG_FORMAT": "json",
}


@dataclass
class Served:
    """A running ingress; addresses are host:port."""

    process: "subprocess.Popen[str]"
    logs: list[dict[str, Any]] = field(default_factory=list)
    killed: bool = False

    def logged(self, event: str) -> dict[str, Any] | None:
        """The first log entry of this event."""
        return next((entry for entry in self.logs if entry.get("event") == event), None)

    @property
    def _serving(self) -> dict[str, Any]:
        found = self.logged("serving")
        assert found is not None
        return found

    @property
    def webhooks(self) -> str:
        """Where forges post to."""
        return str(self._serving["http"][0])

    @property
    def grpc(self) -> str:
        """Where callers call."""
        return str(self._serving["grpc"])

    @property
    def admin(self) -> str:
        """Where probes ask."""
        return str(self._serving["admin"])

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.killed = True
        self.process.kill()
        self.process.wait()

    def read(self) -> None:
        """Collects the log until the process ends."""
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.logs.append(json.loads(line) if line.startswith("{") else {"event": line})


@contextmanager
def served(database_url: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Starts ingress, and stops it by SIGTERM at the end of the block; it must end well."""
    variables = {**ENVIRONMENT, "INGRESS_DATABASE_URL": database_url, **(environment or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "services.ingress"],
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
            lambda: running.logged("serving") or process.poll() is not None,
            deadline_s=30,
            what="ingress to serve",
        )
        assert process.poll() is None, running.logs
        yield running
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0 or running.killed, running.logs
    finally:
        process.kill()
        process.wait()
        reader.join()


@asynccontextmanager
async def served_beside(
    database_url: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Served]:
    """The same for a test whose event loop must run meanwhile, as for a proxy."""
    serving = served(database_url, environment)
    running = await asyncio.to_thread(serving.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)
