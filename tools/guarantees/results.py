"""Remembers the last result of each marked test, and of which code it was."""

import fcntl
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

STORE = Path(".pytest_cache/guarantees.json")
TESTED = (
    ".dockerignore",
    "Dockerfile",
    "Makefile",
    "bench",
    "buf.yaml",
    "compose.yaml",
    "conftest.py",
    "deploy",
    "examples",
    "protos",
    "sdk",
    "services",
    "shared",
    "tests",
    "tools",
    "pyproject.toml",
    "requirements-dev.lock",
    "requirements-install.lock",
    "requirements.lock",
)


class Standing(Enum):
    """What is known of a test for the code as it is."""

    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "skipped"
    STALE = "of other code"
    PARTIAL = "ran in part"
    MISSING = "never ran"


@dataclass(frozen=True, kw_only=True)
class Result:
    """How one case of a test ended; `cases` is how many the test has, 0 when that was not seen."""

    outcome: str
    code: str
    commit: str
    cases: int


def code_digest(repository: Path) -> str:
    """Digest of everything a test result depends on, uncommitted changes included."""
    digest = hashlib.sha256()
    for path in _tested_files(repository):
        digest.update(path.relative_to(repository).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def commit_name(repository: Path) -> str:
    """The commit that is checked out, or "no commit" where there is no git."""
    if shutil.which("git") is None:
        return "no commit"
    command = ["git", "-C", str(repository), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "no commit"


def load(repository: Path) -> dict[str, Result]:
    """The remembered results by case; none when nothing was recorded yet."""
    store = repository / STORE
    if not store.is_file():
        return {}
    return {case: Result(**kept) for case, kept in json.loads(store.read_text()).items()}


def remember(repository: Path, results: Mapping[str, Result]) -> None:
    """Adds results to the remembered ones; safe beside other test runs."""
    store = repository / STORE
    store.parent.mkdir(exist_ok=True)
    with _locked(store.with_suffix(".lock")):
        merged = {**load(repository), **results}
        fresh = store.with_suffix(".new")
        fresh.write_text(json.dumps({case: asdict(kept) for case, kept in merged.items()}))
        fresh.replace(store)


def standing(test: str, results: Mapping[str, Result], code: str) -> Standing:
    """What the remembered results say of a test, all its cases together."""
    cases = [kept for case, kept in results.items() if test_of(case) == test]
    current = [kept for kept in cases if kept.code == code]
    if not current:
        return Standing.STALE if cases else Standing.MISSING
    outcomes = {kept.outcome for kept in current}
    if "failed" in outcomes:
        return Standing.FAILED
    if "skipped" in outcomes:
        return Standing.SKIPPED
    whole = len(current) >= max(kept.cases for kept in current) > 0
    return Standing.PASSED if whole else Standing.PARTIAL


def test_of(case: str) -> str:
    """The test that a case belongs to: its node id without parameters."""
    return case.partition("[")[0]


def _tested_files(repository: Path) -> list[Path]:
    found: list[Path] = []
    for name in TESTED:
        path = repository / name
        found += [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
