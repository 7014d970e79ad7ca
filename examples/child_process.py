"""Runs an example server as a child: started when its ready line has come, ended with SIGTERM."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READY_WITHIN_S = 20.0
ENDS_WITHIN_S = 10.0


class StartError(Exception):
    """The child ended, or kept silent, before its ready line."""


class ChildProcess:
    """A running `python -m MODULE`; ready_line is the one line it printed."""

    def __init__(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts it and waits for the line; raises StartError with what it said instead."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},  # noqa: TID251 # handed on, not read
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self.ready_line = self._read_line()
        if not self.ready_line:
            self.kill()
            raise StartError(f"{module} did not get ready; what it said stands on stderr")

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def stop(self) -> int:
        """Ends it with SIGTERM and returns its exit status; kills it if it will not end."""
        self._process.terminate()
        try:
            status = self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._close()
        return status

    def kill(self) -> None:
        """Ends it with SIGKILL, as a crash would."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + READY_WITHIN_S
        while not line.endswith(b"\n"):
            left_s = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([descriptor], [], [], left_s)
            chunk = os.read(descriptor, 4096) if readable else b""
            if not chunk:
                return ""
            line += chunk
        return line.decode().strip()

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()
