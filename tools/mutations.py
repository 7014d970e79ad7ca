"""Takes each recorded guard out of a copy of the tree and expects its tests to fail.

A test that passes without the guard it is for proves nothing. The records stand in
`tests/mutations/*.toml`, one table each; the text to replace occurs exactly once in its file:

    [[mutation]]
    name = "a renewal without its epoch"
    rules = ["L3"]
    file = "services/dispatcher/store.py"
    old = "…"
    new = "…"
    tests = ["tests/races/test_leases.py::test_a_replaced_holder_cannot_renew"]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
RECORDS = Path("tests/mutations")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".venvs", ".fencepost", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info"
)
TESTS_FAILED = 1
TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One guard, the text without it, and the tests that must notice."""

    name: str
    rules: tuple[str, ...]
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, tree: Path) -> None:
        """Takes the guard out; raises ValueError unless its text stands there exactly once."""
        path = tree / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.file} holds the text {text.count(self.old)} times"
            )
        path.write_text(text.replace(self.old, self.new))


class FailingAnywayError(Exception):
    """Tests that fail without any mutation prove nothing; the message is what pytest said."""


def recorded(repository: Path) -> list[Mutation]:
    """All recorded mutations, in the order of their files."""
    return [
        _mutation(table)
        for path in sorted((repository / RECORDS).glob("*.toml"))
        for table in tomllib.loads(path.read_text())["mutation"]
    ]


def _mutation(table: dict[str, Any]) -> Mutation:
    lists = {key: tuple(table[key]) for key in ("rules", "tests")}
    return Mutation(**{**table, **lists})


def survivors(repository: Path, mutations: list[Mutation]) -> list[str]:
    """Runs the tests of each mutation; returns the names of those that went unnoticed.

    Raises FailingAnywayError when the tests fail on the code as it is.
    """
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        tree = Path(name) / "tree"
        shutil.copytree(repository, tree, ignore=LEFT_OUT, symlinks=True)
        tests = sorted({test for mutation in mutations for test in mutation.tests})
        before = _run(tree, tests)
        if before.returncode != 0:
            raise FailingAnywayError(before.stdout.decode())
        return [m.name for m in mutations if not _noticed(tree, m)]


def _noticed(tree: Path, mutation: Mutation) -> bool:
    path = tree / mutation.file
    before = path.read_text()
    mutation.apply(tree)
    try:
        # Each test must notice by itself; a tree that cannot even be collected is no proof.
        noticed = all(_run(tree, [t]).returncode == TESTS_FAILED for t in mutation.tests)
    finally:
        path.write_text(before)
    print(f"{'noticed' if noticed else 'SURVIVED':9} {mutation.name}", flush=True)
    return noticed


def _run(tree: Path, tests: list[str]) -> subprocess.CompletedProcess[bytes]:
    # The copy's own SDK comes before the one that is installed for editing; compiled files could
    # outlive a change made within the same second.
    environment = {"PYTHONPATH": f"{tree}:{tree / 'sdk'}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        env=os.environ | environment,  # noqa: TID251 - handed on, not read
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def main() -> int:
    """Runs all mutations, or those whose names hold the given words."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutations")
    parser.add_argument("words", nargs="*", help="only mutations whose name or rules hold one")
    words = parser.parse_args().words
    chosen = [
        mutation
        for mutation in recorded(REPOSITORY)
        if not words or any(w in f"{mutation.name} {mutation.rules}" for w in words)
    ]
    try:
        unnoticed = survivors(REPOSITORY, chosen)
    except FailingAnywayError as error:
        print(f"{error}\nthe tests fail on the code as it is", file=sys.stderr)
        return 1
    for name in unnoticed:
        print(f"NOT NOTICED: {name}", file=sys.stderr)
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} mutations noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
