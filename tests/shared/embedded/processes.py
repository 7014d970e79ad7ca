"""Processes of the embedded database as the tests start, watch and name them."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from shared.embedded.binaries import Binaries, find_binaries
from shared.embedded.occupants import Occupants, occupants_of
from tests.waiting import until_sync

REPOSITORY = Path(__file__).parents[3]

PARENT = """
import sys, threading
from pathlib import Path
from shared.embedded import EmbeddedPostgres
database = EmbeddedPostgres(Path(sys.argv[1]))
database.start()
print(database.url, flush=True)
threading.Event().wait()
"""
"""Starts the database in the folder it is given, prints the URL and never stops it."""


CLAIMER = """
import sys, threading
from pathlib import Path
from shared.embedded.claim import claimed
from shared.embedded.folder import DataFolder
with claimed(DataFolder(Path(sys.argv[1]))):
    print("claimed", flush=True)
    threading.Event().wait()
"""
"""Claims the folder it is given and gets no further."""


def python(*words: str, wrapped_in: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """A Python process in the repository's root, with its output as pipes."""
    return subprocess.Popen(
        [*wrapped_in, sys.executable, *words],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def foreground(data_folder: Path, *words: str) -> "subprocess.Popen[str]":
    """The database as a shell would run it."""
    return python("-m", "shared.embedded", "--data-folder", str(data_folder), *words)


def first_line(process: "subprocess.Popen[str]") -> str:
    """The first line it prints; fails with what it said instead."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise AssertionError(process.communicate(timeout=30)[1])
    return line


def postmaster_in(data_folder: Path) -> int:
    """The process id of the server that runs in the folder."""
    postmaster = living_in(data_folder).postmaster
    assert postmaster is not None
    return postmaster


def living_in(data_folder: Path) -> Occupants:
    """PostgreSQL's processes in the folder."""
    return occupants_of(data_folder / "cluster")


def until_empty(data_folder: Path) -> None:
    """Waits until no process of PostgreSQL lives in the folder."""
    until_sync(
        lambda: not living_in(data_folder).any,
        deadline_s=30,
        what="the database in the folder to be gone",
    )


def cluster_state(data_folder: Path, binaries: Binaries | None = None) -> str:
    """What pg_controldata calls the state of the cluster."""
    pg_controldata = (binaries or find_binaries()).folder / "pg_controldata"
    said = subprocess.run(
        [pg_controldata, data_folder / "cluster"], capture_output=True, text=True, check=True
    )
    state = re.search(r"Database cluster state: +(.+)", said.stdout)
    assert state is not None
    return state[1]


def packages_folder() -> Path:
    """Where the installed packages are."""
    return Path(sysconfig.get_path("purelib"))
