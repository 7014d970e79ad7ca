"""The locks pin everything by hash, agree with one another and name no registry."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.architecture.tree import REPOSITORY
from tools import locks
from tools.locks import LOCKS, ResolutionError

NAMES = [lock.name for lock in LOCKS]
PIN = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>[^ ;]+)", re.MULTILINE)
ENTRY = re.compile(r"^(?=[a-z0-9])", re.MULTILINE)


def read(name: str) -> str:
    return (REPOSITORY / name).read_text()


def pins(name: str) -> dict[str, str]:
    return {match["name"]: match["version"] for match in PIN.finditer(read(name))}


@pytest.mark.parametrize("name", NAMES)
def test_every_requirement_is_pinned_by_hash(name: str) -> None:
    entries = [entry for entry in ENTRY.split(read(name)) if entry]
    assert entries
    assert [
        entry for entry in entries if not PIN.match(entry) or "--hash=sha256:" not in entry
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_lock_names_where_packages_come_from(name: str) -> None:
    assert not re.search(r"://|index-url|find-links|@ ", read(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_lock_is_a_part_of_the_development_lock(name: str) -> None:
    everything = pins("requirements-dev.lock")
    assert {n: v for n, v in pins(name).items() if everything.get(n) != v} == {}


def test_the_locks_fit_what_the_project_asks_for() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    groups = project["dependency-groups"]
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["cli"],
        *(entry for group in groups.values() for entry in group if isinstance(entry, str)),
    ]
    locked = pins("requirements-dev.lock")
    unmet = [
        text
        for text in wanted
        if (requirement := Requirement(text)).name not in locked
        or Version(locked[requirement.name]) not in requirement.specifier
    ]
    assert unmet == []


def test_a_registry_out_of_reach_is_told_from_a_conflict() -> None:
    assert ResolutionError("cause: error sending request for url").offline
    assert not ResolutionError("No solution found when resolving dependencies").offline


def resolved(repository: Path, target: Path) -> None:
    """As if the registry had answered with what is pinned already."""
    for name in NAMES:
        shutil.copy(repository / name, target)


def resolved_anew(repository: Path, target: Path) -> None:
    """As if a pin no longer fitted."""
    resolved(repository, target)
    with (target / NAMES[1]).open("a") as lock:
        lock.write("another==1\n")


def out_of_reach(repository: Path, target: Path) -> None:
    """As if there were no network."""
    raise ResolutionError("error sending request for url")


@pytest.mark.parametrize(
    ("registry", "strict", "code", "said"),
    [
        (resolved, True, 0, ""),
        (resolved_anew, False, 1, f"stale lock: {NAMES[1]}; run `make lock`"),
        (out_of_reach, False, 0, "NOT CHECKED: lock freshness"),
        (out_of_reach, True, 1, "error sending request"),
    ],
)
def test_a_stale_lock_fails_the_command(
    registry: object,
    strict: bool,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(locks, "compile_locks", registry)
    assert locks.check(REPOSITORY, strict=strict) == code
    assert said in capsys.readouterr().err
