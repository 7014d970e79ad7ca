"""What is remembered of a test run: per case, of which code, and whether all of it ran."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import REPOSITORY, files
from tools.guarantees.results import (
    STORE,
    TESTED,
    Result,
    Standing,
    code_digest,
    load,
    remember,
    standing,
)

TESTS = """\
import pytest

@pytest.mark.guarantee("C1")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_cases(n): ...

@pytest.mark.guarantee("C2")
def test_broken(): assert False

@pytest.mark.guarantee("C4")
def test_skipped(): pytest.skip("not here")

@pytest.fixture
def breaking_down():
    yield
    raise RuntimeError

@pytest.mark.guarantee("C7")
def test_torn(breaking_down): ...

def test_unmarked(): ...
"""
CONFIGURATION = "[tool.pytest.ini_options]\nmarkers = ['guarantee(*rules): rules']\n"
CASES = "tests/test_a.py::test_cases"
PROSE = {"ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "docs"}
FOR_OTHER_TOOLS = {".ci", ".gitignore"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
    return tmp_path


def run(tree: Path, *options: str) -> int:
    """Runs the small tree's tests with the plugin; returns pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.guarantees.plugin", *options]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": ""}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=False)
    return done.returncode


def stands(tree: Path, test: str) -> Standing:
    return standing(test, load(tree), code_digest(tree))


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "loadfile")], ids=["one", "two"])
def test_each_marked_test_is_remembered(tree: Path, options: tuple[str, ...]) -> None:
    assert run(tree, *options) == 1
    assert stands(tree, CASES) is Standing.PASSED
    assert stands(tree, "tests/test_a.py::test_broken") is Standing.FAILED
    assert stands(tree, "tests/test_a.py::test_skipped") is Standing.SKIPPED
    assert stands(tree, "tests/test_a.py::test_torn") is Standing.FAILED
    assert stands(tree, "tests/test_a.py::test_unmarked") is Standing.MISSING


@pytest.mark.parametrize(
    "options",
    [(f"{CASES}[1]",), (CASES, "-k", "1"), (CASES, "--deselect", f"{CASES}[2]")],
    ids=["one case named", "chosen by word", "one case left out"],
)
def test_a_test_that_ran_in_part_is_no_proof(tree: Path, options: tuple[str, ...]) -> None:
    assert run(tree, *options) == 0
    assert stands(tree, CASES) is Standing.PARTIAL


def test_a_result_of_other_code_is_no_proof(tree: Path) -> None:
    assert run(tree, CASES) == 0
    (tree / "shared").mkdir()
    (tree / "shared/new.py").touch()
    assert stands(tree, CASES) is Standing.STALE
    assert run(tree, CASES) == 0
    assert stands(tree, CASES) is Standing.PASSED


def test_all_but_prose_counts_as_code() -> None:
    tops = {path.relative_to(REPOSITORY).parts[0] for path in files()}
    assert tops - PROSE - FOR_OTHER_TOOLS == set(TESTED)


def test_code_that_changed_while_tests_ran_was_tested_by_none(tree: Path) -> None:
    changing = "def test_z():\n    open('pyproject.toml', 'a').write('#')\n"
    (tree / "tests/test_z.py").write_text(changing)
    assert run(tree, CASES, "tests/test_z.py") == 0
    assert not (tree / STORE).exists()


def test_an_unknown_rule_is_refused(tree: Path) -> None:
    (tree / "tests/test_b.py").write_text(TESTS.replace("C1", "C99"))
    assert run(tree) == pytest.ExitCode.USAGE_ERROR


def test_results_of_two_runs_are_kept_together(tmp_path: Path) -> None:
    one = Result(outcome="passed", code="a", commit="c", cases=1)
    remember(tmp_path, {"tests/test_a.py::test_x": one})
    remember(tmp_path, {"tests/test_a.py::test_y": one})
    assert load(tmp_path).keys() == {"tests/test_a.py::test_x", "tests/test_a.py::test_y"}
