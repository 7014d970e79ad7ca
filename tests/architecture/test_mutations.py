"""The recorded mutations fit the code: each could be made now, and its tests exist."""

from pathlib import Path

import pytest

from tests.architecture.tree import REPOSITORY
from tools.guarantees.catalogue import RULES
from tools.guarantees.markers import scan
from tools.mutations import FailingAnywayError, Mutation, recorded, survivors

TEST = "from doubling import double\n\ndef test_double():\n    assert double(2) == 4\n"
CODE = "def double(n):\n    return 2 * n\n"
GUARD = Mutation(
    name="half",
    rules=(),
    file="doubling.py",
    old="2 * n",
    new="n",
    tests=("tests/test_code.py::test_double",),
)


@pytest.fixture(scope="module")
def known() -> frozenset[str]:
    return scan(REPOSITORY).tests


@pytest.mark.parametrize("mutation", recorded(REPOSITORY), ids=lambda mutation: mutation.name)
def test_a_record_fits_the_code(mutation: Mutation, known: frozenset[str]) -> None:
    assert mutation.tests
    assert mutation.new != mutation.old
    assert (REPOSITORY / mutation.file).read_text().count(mutation.old) == 1
    assert [rule for rule in mutation.rules if rule not in RULES] == []
    assert [test for test in mutation.tests if test.partition("[")[0] not in known] == []


def test_names_are_told_apart() -> None:
    names = [mutation.name for mutation in recorded(REPOSITORY)]
    assert len(names) == len(set(names))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "doubling.py").write_text(CODE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_code.py").write_text(TEST)
    return tmp_path


def test_a_mutation_that_a_test_notices_does_not_survive(tree: Path) -> None:
    assert survivors(tree, [GUARD]) == []
    assert (tree / "doubling.py").read_text() == CODE


def test_a_test_that_does_not_look_lets_it_survive(tree: Path) -> None:
    (tree / "tests/test_code.py").write_text(TEST.replace("== 4", "> 0"))
    assert survivors(tree, [GUARD]) == ["half"]


def test_code_that_does_not_even_load_is_no_proof(tree: Path) -> None:
    broken = Mutation(**{**vars(GUARD), "new": "2 *"})
    assert survivors(tree, [broken]) == ["half"]


def test_tests_that_fail_anyway_prove_nothing(tree: Path) -> None:
    (tree / "tests/test_code.py").write_text(TEST.replace("== 4", "== 5"))
    with pytest.raises(FailingAnywayError, match="1 failed"):
        survivors(tree, [GUARD])
