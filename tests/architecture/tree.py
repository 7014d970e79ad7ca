"""The files of this repository as it stands, without what git ignores."""

import subprocess
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
IGNORED_FOLDERS = {".git", ".venv", ".fencepost", "__pycache__", "node_modules"}
CODE_ROOTS = ("services", "shared", "sdk", "deploy", "examples", "tests", "tools")
GENERATED = ("_pb2.py", "_pb2_grpc.py")


@cache
def files() -> tuple[Path, ...]:
    """All files, committed or about to be."""
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-zco", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return tuple(sorted(_walk()))
    names = {name for name in done.stdout.split("\0") if name}
    return tuple(sorted(REPOSITORY / n for n in names if (REPOSITORY / n).is_file()))


def _walk() -> list[Path]:
    """An unpacked archive has no git: every file, but for the folders that are known to be none."""
    return [
        path
        for path in REPOSITORY.rglob("*")
        if path.is_file() and not IGNORED_FOLDERS & set(path.relative_to(REPOSITORY).parts)
    ]


def name_of(path: Path) -> str:
    """The path below the repository."""
    return path.relative_to(REPOSITORY).as_posix()


def python_files() -> list[Path]:
    """The hand-written Python of the repository."""
    return [
        path
        for path in files()
        if path.suffix == ".py"
        and name_of(path).startswith(CODE_ROOTS)
        and not path.name.endswith(GENERATED)
    ]
