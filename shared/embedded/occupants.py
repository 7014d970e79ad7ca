"""Which PostgreSQL processes live in a cluster, and how its postmaster says it is doing."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Phase(StrEnum):
    """The last line of postmaster.pid."""

    STARTING = "starting"
    STOPPING = "stopping"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class PostmasterFile:
    """What postmaster.pid says; phase is None until PostgreSQL has written it whole."""

    process_id: int
    phase: Phase | None


@dataclass(frozen=True, slots=True)
class Occupants:
    """Living PostgreSQL processes of one cluster."""

    postmaster: int | None
    children: tuple[int, ...]

    @property
    def orphans(self) -> tuple[int, ...]:
        """Children that outlived their postmaster."""
        return self.children if self.postmaster is None else ()

    @property
    def any(self) -> bool:
        """Whether anything lives in the cluster."""
        return self.postmaster is not None or bool(self.children)


def occupants_of(cluster: Path) -> Occupants:
    """Looks through /proc: PostgreSQL's processes stand in their data directory.

    Empty where there is no /proc; PostgreSQL's own checks remain there.
    """
    children: list[int] = []
    untitled: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        title = postgres_title(process, cluster)
        if title is None:
            continue
        # Children name their duty ("postgres: checkpointer"); a postmaster keeps its command line,
        # and so does a child in its first moment.
        (children if title.startswith(b"postgres: ") else untitled).append(int(process.name))
    postmaster = next((each for each in untitled if parent_of(each) not in untitled), None)
    children += [each for each in untitled if each != postmaster]
    return Occupants(postmaster, tuple(children))


def postgres_title(process: Path, cluster: Path) -> bytes | None:
    """The command line of a process if it is a PostgreSQL in `cluster`, else None."""
    try:
        if os.readlink(process / "cwd") != str(cluster):
            return None
        if Path(os.readlink(process / "exe")).name.removesuffix(" (deleted)") != "postgres":
            return None
        return (process / "cmdline").read_bytes() or None
    except OSError:
        # It has ended meanwhile, or belongs to another user.
        return None


def parent_of(process_id: int) -> int | None:
    """The parent's process id; None when the process has ended meanwhile."""
    try:
        status = Path("/proc", str(process_id), "stat").read_text()
    except OSError:
        return None
    # The name before it, in brackets, may hold anything.
    return int(status.rpartition(")")[2].split()[1])


def read_postmaster_file(cluster: Path) -> PostmasterFile | None:
    """What postmaster.pid says, or None while there is none or it names no process."""
    try:
        lines = (cluster / "postmaster.pid").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    if not lines or not lines[0].strip().isdecimal():
        return None
    status = lines[7].strip() if len(lines) > 7 else ""
    return PostmasterFile(int(lines[0]), Phase(status) if status in set(Phase) else None)


def process_exists(process_id: int) -> bool:
    """Whether any process has this id; False where there is no /proc to look at."""
    return Path("/proc", str(process_id)).exists()


def is_another_process(process_id: int) -> bool:
    """Whether the id belongs to a living process that is not this one."""
    if process_id == os.getpid():
        return False
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it belongs to another user
    return True
