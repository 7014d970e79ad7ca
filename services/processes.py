"""A service as a child process: bound to this one's life, logging to a file, watched, stopped."""

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.data_files import file_faults_named, make_folder
from shared.embedded.folder import LOG_LIMIT_BYTES, last_lines
from shared.embedded.programs import lifeline
from shared.schema.grants import Service

REPOSITORY = Path(__file__).parents[1]
PROBE_TIMEOUT_S = 2.0
STOP_TIMEOUT_S = 60.0
"""Beyond what a service gives itself to drain: after it a stuck one is killed."""

TAIL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Running:
    """One service's process; without a log file it writes where this process does."""

    service: Service
    process: "subprocess.Popen[bytes]"
    admin_address: str
    log_file: Path | None
    log_start_bytes: int = 0
    """How long the log was by then: what stands before is of earlier starts."""

    @property
    def ending(self) -> str:
        """How it ended and its last words, as a sentence; empty while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        how = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )
        if self.log_file is None:
            return f"{self.service} {how}; its log is above."
        words = last_lines(_tail(self.log_file, self.log_start_bytes)) or "(nothing)"
        return f"{self.service} {how}. The end of its log, {self.log_file}:\n{words}"

    def is_ready(self) -> bool:
        """Whether it says that it may be sent work."""
        connection = http.client.HTTPConnection(self.admin_address, timeout=PROBE_TIMEOUT_S)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            # It does not listen yet.
            return False
        finally:
            connection.close()

    def stop(self) -> bool:
        """Asks it to drain and waits for its end; False: it had to be killed."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()


def start_service(
    service: Service, environment: Mapping[str, str], *, admin_address: str, log_file: Path | None
) -> Running:
    """Starts a service with this environment and no other; call it from the main thread.

    The process gets SIGINT, which drains it, when the thread that started it has died.
    Raises SuiteError when the log file cannot be opened.
    """
    output = _open_log(log_file) if log_file else None
    log_start_bytes = os.fstat(output).st_size if output is not None else 0
    try:
        process = subprocess.Popen(
            [*lifeline(), sys.executable, "-m", f"services.{service}"],
            cwd=REPOSITORY,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # A Ctrl-C is for us, who stop the services in order.
            start_new_session=True,
        )
    finally:
        if output is not None:
            os.close(output)
    return Running(service, process, admin_address, log_file, log_start_bytes)


def _open_log(path: Path) -> int:
    make_folder(path.parent)
    with file_faults_named(path):
        if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _tail(path: Path, start_bytes: int) -> str:
    with path.open("rb") as file:
        file.seek(max(start_bytes, path.stat().st_size - TAIL_BYTES))
        return file.read().decode(errors="replace")
