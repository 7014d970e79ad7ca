"""The data folder: what lies where in it, and the faults of the disk below it."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.embedded.errors import (
    DiskFullError,
    EmbeddedPostgresError,
    FolderForeignError,
    FolderIsFileError,
    FolderNotWritableError,
)

FULL_BELOW_BYTES = 16 * 2**20
"""PostgreSQL writes its log in pieces of this size, and dies without room for the next."""

QUOTED_LINES = 12
LOG_LIMIT_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class DataFolder:
    """One embedded database: its cluster (PostgreSQL's own data directory) and what is beside."""

    path: Path

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data directory; it is there only when it is complete."""
        return self.path / "cluster"

    @property
    def unfinished_cluster(self) -> Path:
        """A cluster being made, or left over from a start that was cut off."""
        return self.path / "cluster.unfinished"

    @property
    def password_file(self) -> Path:
        """The owner's password in PGPASSFILE format, mode 0600."""
        return self.path / "pgpass"

    @property
    def log_file(self) -> Path:
        """What PostgreSQL says."""
        return self.path / "postgres.log"

    @property
    def lock_file(self) -> Path:
        """Locked by whoever uses the folder; also the sign that the folder is ours."""
        return self.path / "lock"

    def free_bytes(self) -> int:
        """Room left on the disk, for users other than root."""
        there = next(path for path in (self.path, *self.path.parents) if path.exists())
        return shutil.disk_usage(there).free


@contextmanager
def disk_faults_named(folder: DataFolder) -> Iterator[None]:
    """Turns what the disk refuses into DiskFullError or FolderNotWritableError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(folder.path, folder.free_bytes()) from error
        raise FolderNotWritableError(folder.path, f"{error.strerror}: {error.filename}") from error


def disk_fault_in(said: str, folder: DataFolder) -> EmbeddedPostgresError | None:
    """The fault of the disk that a PostgreSQL program named, if it did.

    A full disk also swallows the log that would name it: then scarce room counts as the fault.
    """
    free_bytes = folder.free_bytes()
    named = "No space left on device" in said or "Disk quota exceeded" in said
    swallowed = free_bytes < FULL_BELOW_BYTES and "FATAL" not in said and "PANIC" not in said
    if named or swallowed:
        return DiskFullError(folder.path, free_bytes)
    for refusal in ("Read-only file system", "Permission denied"):
        if refusal in said:
            return FolderNotWritableError(folder.path, last_lines(said))
    return None


def last_lines(said: str) -> str:
    """The end of what a program said, short enough for an error text."""
    return "\n".join(said.strip().splitlines()[-QUOTED_LINES:])


def make_folder(folder: DataFolder) -> None:
    """Makes the folder if need be.

    Raises FolderIsFileError, or FolderForeignError if it holds something not ours.
    """
    try:
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FolderIsFileError(folder.path) from error
    if folder.lock_file.exists():
        return
    if (folder.path / "PG_VERSION").exists():
        raise FolderForeignError(folder.path, "is a data directory of another PostgreSQL")
    if any(folder.path.iterdir()) and not folder.lock_file.exists():
        raise FolderForeignError(folder.path, "holds files that are not an embedded database")


def open_log(folder: DataFolder) -> int:
    """Opens the log for appending; one that grew long is first put aside as postgres.log.1."""
    log_file = folder.log_file
    if log_file.exists() and log_file.stat().st_size > LOG_LIMIT_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
    return os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def read_log(folder: DataFolder, *, from_byte: int) -> str:
    """What was logged from an offset on."""
    with folder.log_file.open("rb") as log:
        log.seek(from_byte)
        return log.read().decode(errors="replace")


def write_private(path: Path, content: str) -> None:
    """Writes a file that only its owner may read, whole or not at all, and durably."""
    draft = path.with_name(path.name + ".draft")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)
    rename_durably(draft, path)


def rename_durably(source: Path, target: Path) -> None:
    """Renames within a folder so that the new name outlives a power cut."""
    source.rename(target)
    parent = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
