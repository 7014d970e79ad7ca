"""A service as a process of its own, on free ports, and what it logs."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.schema.grants import Service
from tests.waiting import until_sync

ROOT = Path(__file__).parents[1]
OWN_CODE = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "sdk")))}
"""What a process of this very tree needs to find its code."""

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


@dataclass
class ServiceProcess:
    """A service that runs; addresses are host:port."""

    process: "subprocess.Popen[str]"
    logs: list[dict[str, Any]] = field(default_factory=list)

    def logged(self, event: str) -> dict[str, Any] | None:
        """The first log entry of this event."""
        return next((entry for entry in self.logs if entry.get("event") == event), None)

    @property
    def grpc(self) -> str:
        """Where callers call."""
        serving = self.logged("serving")
        assert serving is not None
        return str(serving["grpc"])

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait()

    def ask_to_stop(self) -> None:
        """Sends SIGTERM."""
        self.process.terminate()

    def stopped(self) -> int:
        """Waits for its end after SIGTERM; returns the exit status."""
        return self.process.wait(STOP_TIMEOUT_S)

    def collect(self) -> None:
        """Reads its log until it ends."""
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.logs.append(json.loads(line) if line.startswith("{") else {"event": line})


@contextmanager
def service_process(
    service: Service, database_url: str, environment: Mapping[str, str] | None = None
) -> Iterator[ServiceProcess]:
    """Starts a service; one that the block did not end is ended by SIGTERM and must end well."""
    prefix = service.upper()
    process = subprocess.Popen(
        [sys.executable, "-m", f"services.{service}"],
        cwd=ROOT,
        env={
            **OWN_CODE,
            f"{prefix}_DATABASE_URL": database_url,
            f"{prefix}_GRPC_ADDRESS": "127.0.0.1:0",
            f"{prefix}_ADMIN_ADDRESS": "127.0.0.1:0",
            f"{prefix}_LOG_FORMAT": "json",
            **(environment or {}),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    running = ServiceProcess(process)
    collector = threading.Thread(target=running.collect)
    collector.start()
    try:
        until_sync(
            lambda: running.logged("serving") or process.poll() is not None,
            deadline_s=START_TIMEOUT_S,
            what=f"{service} to serve",
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


@asynccontextmanager
async def service_process_beside(
    service: Service, database_url: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[ServiceProcess]:
    """The same for a test whose event loop must run meanwhile, as for a proxy or a worker."""
    serving = service_process(service, database_url, environment)
    running = await asyncio.to_thread(serving.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)
