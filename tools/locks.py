"""Writes the hash-pinned locks, or tells whether they are what pyproject.toml asks for.

`python -m tools.locks` keeps the pins that still fit; `--upgrade` takes the newest releases;
`--check` changes nothing. A registry that cannot be reached is said, and fails a strict check (CI).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
OPTIONS = (
    "--quiet",
    "--universal",
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--python-version=3.11",
)
OFFLINE_SIGNS = ("Failed to fetch", "error sending request", "dns error", "Could not connect")


@dataclass(frozen=True, kw_only=True)
class Lock:
    """One lock file and what it is resolved from."""

    name: str
    sources: tuple[str, ...]
    within: str | None = None


# Development comes first: the others take their pins from it, so that all three agree.
LOCKS = (
    Lock(name="requirements-dev.lock", sources=("pyproject.toml", "--extra=cli", "--group=dev")),
    Lock(
        name="requirements.lock",
        sources=("pyproject.toml", "--extra=cli", "--group=services"),
        within="requirements-dev.lock",
    ),
    Lock(
        name="requirements-install.lock",
        sources=("--group=install",),
        within="requirements-dev.lock",
    ),
)


class ResolutionError(Exception):
    """The installer could not resolve; the message is what it said."""

    @property
    def offline(self) -> bool:
        """Whether the registry was out of reach, which says nothing about the locks."""
        return any(sign in str(self) for sign in OFFLINE_SIGNS)


def compile_locks(repository: Path, target: Path, *, upgrade: bool = False) -> None:
    """Resolves all locks into `target`, starting from the repository's own pins."""
    for name in ("pyproject.toml", *(lock.name for lock in LOCKS)):
        if (repository / name).is_file():
            shutil.copy(repository / name, target / name)
    for lock in LOCKS:
        constraint = [f"--constraint={lock.within}"] if lock.within else []
        newest = ["--upgrade"] if upgrade else []
        _resolve(target, [*lock.sources, *constraint, *newest, f"--output-file={lock.name}"])


def stale(fresh: Path, repository: Path) -> list[str]:
    """Names of the locks that differ from the freshly resolved ones."""
    return [lock.name for lock in LOCKS if _text(fresh, lock) != _text(repository, lock)]


def _text(folder: Path, lock: Lock) -> str:
    path = folder / lock.name
    return path.read_text() if path.is_file() else ""


def _resolve(folder: Path, arguments: list[str]) -> None:
    uv = Path(sys.executable).parent / "uv"
    command = [str(uv), "pip", "compile", *OPTIONS, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ResolutionError(done.stderr.strip())


def check(repository: Path, *, strict: bool) -> int:
    """Compares the locks with a fresh resolution; returns the exit code."""
    with tempfile.TemporaryDirectory() as name:
        try:
            compile_locks(repository, Path(name))
        except ResolutionError as error:
            print(error, file=sys.stderr)
            if error.offline and not strict:
                print("NOT CHECKED: lock freshness, the registry is out of reach", file=sys.stderr)
                return 0
            return 1
        differing = stale(Path(name), repository)
    for lock in differing:
        print(f"stale lock: {lock}; run `make lock` and commit the result", file=sys.stderr)
    return 1 if differing else 0


def main() -> int:
    """Writes the locks, or with --check compares them."""
    parser = argparse.ArgumentParser(prog="python -m tools.locks", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when stale")
    parser.add_argument("--strict", action="store_true", help="no registry, no success")
    parser.add_argument("--upgrade", action="store_true", help="take the newest releases")
    options = parser.parse_args()
    if options.check:
        return check(REPOSITORY, strict=options.strict)
    with tempfile.TemporaryDirectory() as name:
        compile_locks(REPOSITORY, Path(name), upgrade=options.upgrade)
        changed = stale(Path(name), REPOSITORY)
        for lock in changed:
            shutil.copy(Path(name) / lock, REPOSITORY / lock)
    print(f"locks changed: {', '.join(changed) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
