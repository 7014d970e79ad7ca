"""PostgreSQL as a child of this process: started, watched until ready, stopped with it."""

import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from shared.embedded.binaries import Binaries, find_binaries
from shared.embedded.claim import claimed
from shared.embedded.cluster import DATABASE, OWNER, prepare_cluster
from shared.embedded.errors import (
    AlreadyStartedError,
    EmbeddedPostgresError,
    NotStartedError,
    PortUnavailableError,
    SettingReservedError,
    StartedOffMainThreadError,
    StartFailedError,
)
from shared.embedded.folder import (
    DataFolder,
    disk_fault_in,
    disk_faults_named,
    last_lines,
    open_log,
    read_log,
)
from shared.embedded.occupants import Phase, read_postmaster_file
from shared.embedded.programs import command_line, environment

HOST = "127.0.0.1"
READY_TIMEOUT_S = 120.0
"""Long, as replaying the log of a killed server counts into it."""

WAIT_SLICE_S = 0.5
STOP_TIMEOUT_S = 60.0
CUT_OFF_TIMEOUT_S = 5.0
POLL_S = 0.01
FREE_PORT_TRIES = 5

RESERVED: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": HOST,
        "unix_socket_directories": "",
        "password_encryption": "scram-sha-256",
        "fsync": "on",
        "full_page_writes": "on",
        "logging_collector": "off",
        "log_destination": "stderr",
    }
)
RESERVED_NAMES = frozenset(RESERVED) | {"port", "data_directory", "hba_file"}

log = logging.getLogger(__name__)


class EmbeddedPostgres:
    """A PostgreSQL that lives in a folder and for as long as this process, or until stop().

    Give it a folder that is empty, new, or its own from before. Start it from the main thread.
    The owner in `url` is no superuser: a role with CREATEROLE and CREATEDB that owns the database.
    Every fault is an EmbeddedPostgresError whose text says what to do.
    """

    def __init__(
        self,
        data_folder: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        binaries: Binaries | None = None,
    ) -> None:
        """Without a port the first start takes a free one, kept by later starts of this object.

        Raises BinariesMissingError, SettingReservedError.
        """
        taken = sorted(RESERVED_NAMES & {name.lower() for name in settings})
        if taken:
            raise SettingReservedError(taken)
        self._folder = DataFolder(data_folder.resolve())
        self._port = port
        self._settings = dict(settings)
        self._binaries = binaries or find_binaries()
        self._password: str | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def major_version(self) -> int:
        """PostgreSQL's major version."""
        return self._binaries.major_version

    @property
    def url(self) -> str:
        """The owner's URL, password included; raises NotStartedError before the first start()."""
        if self._password is None:
            raise NotStartedError
        return f"postgresql://{OWNER}:{self._password}@{HOST}:{self.port}/{DATABASE}"

    @property
    def url_without_password(self) -> str:
        """The same for eyes and logs."""
        return f"postgresql://{OWNER}@{HOST}:{self.port}/{DATABASE}"

    @property
    def port(self) -> int:
        """The port on 127.0.0.1; raises NotStartedError while none is chosen."""
        if self._port is None:
            raise NotStartedError
        return self._port

    @property
    def password_file(self) -> Path:
        """The owner's password in PGPASSFILE format, mode 0600."""
        return self._folder.password_file

    @property
    def log_file(self) -> Path:
        """What PostgreSQL says."""
        return self._folder.log_file

    @property
    def process_id(self) -> int | None:
        """The postmaster's process id, or None while it does not run."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and running else None

    def start(self) -> None:
        """Returns when connections are accepted; makes the database first if there is none.

        Raises a subclass of EmbeddedPostgresError.
        """
        if self.process_id is not None:
            raise AlreadyStartedError(self.process_id)
        if threading.current_thread() is not threading.main_thread():
            raise StartedOffMainThreadError(threading.current_thread().name)
        with claimed(self._folder) as lock:
            self._password = prepare_cluster(self._folder, self._binaries, lock=lock)
            if self._port is None:
                self._start_on_free_port(lock)
            else:
                self._start_on(self._port, lock)

    def stop(self) -> None:
        """Ends connections, writes a checkpoint and returns when the server has ended."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        if not self._await_end(STOP_TIMEOUT_S):
            log.warning("PostgreSQL did not stop in %s s and is cut off", STOP_TIMEOUT_S)
        self._cut_off()

    def wait(self) -> int | None:
        """Waits until the server ends by itself; gives its exit code."""
        while self._process is not None:
            # In slices: a signal that comes just before a wait without end would not be seen.
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(WAIT_SLICE_S)
        return None

    def _start_on_free_port(self, lock: int) -> None:
        for _ in range(FREE_PORT_TRIES - 1):
            # Somebody may be quicker to a port that is free at this moment.
            with suppress(PortUnavailableError):
                self._start_on(free_port(), lock)
                return
        self._start_on(free_port(), lock)

    def _start_on(self, port: int, lock: int) -> None:
        with disk_faults_named(self._folder):
            log_handle = open_log(self._folder)
        logged_before_bytes = os.fstat(log_handle).st_size
        try:
            self._process = self._launch(port, lock, log_handle)
            self._wait_until_ready(port, logged_before_bytes)
        except BaseException:
            self._cut_off()
            raise
        finally:
            os.close(log_handle)
        self._port = port

    def _launch(self, port: int, lock: int, log_handle: int) -> "subprocess.Popen[bytes]":
        settings = {"log_line_prefix": "%m [%p] %q%u@%d ", **self._settings, **RESERVED}
        words = [word for item in settings.items() for word in ("-c", "=".join(item))]
        cluster = str(self._folder.cluster)
        return subprocess.Popen(
            command_line(self._binaries.postgres, "-D", cluster, "-p", str(port), *words),
            stdin=subprocess.DEVNULL,
            stdout=log_handle,
            stderr=log_handle,
            env=environment(),
            pass_fds=(lock,),
            # A Ctrl-C is for us; the server stops when those who use it have stopped.
            start_new_session=True,
        )

    def _wait_until_ready(self, port: int, logged_before_bytes: int) -> None:
        assert self._process is not None
        give_up_at = time.monotonic() + READY_TIMEOUT_S
        while self._process.poll() is None:
            noted = read_postmaster_file(self._folder.cluster)
            if noted and noted.process_id == self._process.pid and noted.phase is Phase.READY:
                return
            if time.monotonic() >= give_up_at:
                what_happened = f"was not ready within {READY_TIMEOUT_S} s"
                raise self._failure(what_happened, port, logged_before_bytes)
            self._await_end(POLL_S)
        what_happened = f"ended with code {self._process.returncode} before it was ready"
        raise self._failure(what_happened, port, logged_before_bytes)

    def _failure(
        self, what_happened: str, port: int, logged_before_bytes: int
    ) -> EmbeddedPostgresError:
        said = read_log(self._folder, from_byte=logged_before_bytes)
        for line in said.splitlines():
            if "could not bind" in line:
                return PortUnavailableError(port, line.partition("could not bind ")[2])
        disk_fault = disk_fault_in(said, self._folder)
        return disk_fault or StartFailedError(what_happened, self.log_file, last_lines(said))

    def _cut_off(self) -> None:
        """Stops at once if it still runs; what was committed is replayed at the next start."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT)
        if not self._await_end(CUT_OFF_TIMEOUT_S):
            self._process.kill()
            self._process.wait()
        self._process = None

    def _await_end(self, timeout_s: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
