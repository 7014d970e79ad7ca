"""Claiming the data folder: one user at a time, and none of a dead one's processes left in it."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shared.embedded.errors import FolderInUseError
from shared.embedded.folder import DataFolder, disk_faults_named, make_folder
from shared.embedded.occupants import (
    Occupants,
    Phase,
    is_another_process,
    occupants_of,
    process_exists,
    read_postmaster_file,
)

POLL_S = 0.02
PATIENCE_S = 1.0
"""How long a running database may take to notice that its owner has died."""

STOP_PATIENCE_S = 60.0
"""How long a database that is shutting down, or the programs of a dead start, may take."""

ORPHAN_GRACE_S = 2.0
"""How long children may outlive a killed postmaster before they are killed too."""


@contextmanager
def claimed(folder: DataFolder) -> Iterator[int]:
    """Holds the folder's lock, whose descriptor is given: PostgreSQL inherits it.

    So the folder stays locked for as long as any of its processes lives, whoever started it.
    Raises FolderInUseError, FolderForeignError, FolderIsFileError, FolderNotWritableError,
    DiskFullError.
    """
    with disk_faults_named(folder):
        make_folder(folder)
        lock = os.open(folder.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        wait_until_free(folder, lock)
        with disk_faults_named(folder):
            note_starter(lock)
            drop_stale_postmaster_file(folder)
        yield lock
    finally:
        os.close(lock)


def wait_until_free(folder: DataFolder, lock: int) -> None:
    """Waits for the lock and for the cluster to be empty; raises FolderInUseError."""
    began = time.monotonic()
    while True:
        locked = try_lock(lock)
        occupants = occupants_of(folder.cluster)
        if locked and not occupants.any:
            return
        waited_s = time.monotonic() - began
        if occupants.orphans and waited_s > ORPHAN_GRACE_S:
            kill_orphans(occupants)
        elif waited_s > patience_s(folder, occupants, read_starter(lock)):
            raise FolderInUseError(
                folder.path, postmaster=occupants.postmaster, starter=read_starter(lock)
            )
        time.sleep(POLL_S)  # noqa: TID251 (waits for a lock and for other processes)


def try_lock(lock: int) -> bool:
    """Takes the lock if nobody else holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def patience_s(folder: DataFolder, occupants: Occupants, starter: int | None) -> float:
    """How long to wait for those who are in the folder: long if they are about to leave it."""
    if occupants.postmaster is None:
        starting = starter is not None and is_another_process(starter)
        leaving = bool(occupants.orphans) or not starting
    else:
        noted = read_postmaster_file(folder.cluster)
        leaving = noted is not None and noted.phase is Phase.STOPPING
    return STOP_PATIENCE_S if leaving else PATIENCE_S


def note_starter(lock: int) -> None:
    """Writes our process id into the lock file: a dead starter's programs are waited for."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)


def read_starter(lock: int) -> int | None:
    """Who took the lock last."""
    noted = os.pread(lock, 32, 0)
    return int(noted) if noted.isdigit() else None


def kill_orphans(occupants: Occupants) -> None:
    """Ends children whose postmaster is dead and who do not end by themselves.

    Their postmaster would have done the same; what was committed is in the write-ahead log.
    """
    for process_id in occupants.orphans:
        with suppress(ProcessLookupError):  # it ended by itself meanwhile
            os.kill(process_id, signal.SIGKILL)


def drop_stale_postmaster_file(folder: DataFolder) -> None:
    """Removes a postmaster.pid whose process id now belongs to another program.

    PostgreSQL would take that program for a running postmaster and refuse to start.
    Nothing lives in the cluster here; a file that names a dead process is left to PostgreSQL.
    """
    noted = read_postmaster_file(folder.cluster)
    if noted is not None and process_exists(noted.process_id):
        (folder.cluster / "postmaster.pid").unlink()
