"""The page of guarantees: its form, and every way in which it can disagree with the tests."""

from dataclasses import replace
from pathlib import Path

import pytest

from tools.guarantees.catalogue import RACES, RULES
from tools.guarantees.document import Draft, MalformedPageError, Page, parse, render, with_proofs
from tools.guarantees.faults import PAGE, faults
from tools.guarantees.markers import scan

TESTS = """\
import pytest

@pytest.mark.guarantee("C1", "C2")
def test_flush(): ...

class TestLease:
    @pytest.mark.guarantee("L2")
    async def test_epoch(self): ...

def test_unmarked(): ...
"""


def page_of_drafts() -> Page:
    """A page on which nothing is promised."""
    drafts = [Draft(rule=rule, race=rule in RACES, sentence=f"Of {rule}.") for rule in RULES]
    return Page(opening="# Guarantees", promises=(), apology="Later.", drafts=tuple(drafts))


def named(page: Page) -> Page:
    """The same page with every mechanism named."""
    return replace(
        page,
        promises=tuple(replace(promise, mechanism="`code.py::guard`") for promise in page.promises),
    )


class Tree:
    """A small repository of tests and a page that agree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "docs").mkdir()
        (root / "code.py").write_text("async def guard() -> None: ...\n")
        (root / "tests/races").mkdir(parents=True)
        self.add_test("test_a.py", TESTS)
        self.page = named(with_proofs(page_of_drafts(), scan(root).tests_by_rule, RULES))
        self.write(self.page)

    def add_test(self, name: str, text: str) -> None:
        (self.root / "tests" / name).write_text(text)

    def write(self, page: Page) -> None:
        (self.root / PAGE).write_text(render(page))

    def refresh(self) -> None:
        self.page = named(with_proofs(self.page, scan(self.root).tests_by_rule, RULES))
        self.write(self.page)

    def fault(self) -> str:
        (only,) = faults(self.root)
        return only


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_page_is_read_as_it_was_written(tree: Tree) -> None:
    assert parse(render(tree.page)) == tree.page
    assert [promise.rule for promise in tree.page.promises] == ["L2", "C1", "C2"]


def test_a_page_that_agrees_has_no_fault(tree: Tree) -> None:
    assert faults(tree.root) == []


def test_markers_are_found_on_functions_classes_and_modules(tree: Tree) -> None:
    tree.add_test(
        "test_b.py",
        "import pytest\n"
        'pytestmark = [pytest.mark.guarantee("C4")]\n'
        '@pytest.mark.guarantee("C7")\n'
        "class TestAll:\n"
        "    def test_one(self): ...\n",
    )
    found = scan(tree.root).tests_by_rule
    assert found["L2"] == ("tests/test_a.py::TestLease::test_epoch",)
    assert found["C4"] == found["C7"] == ("tests/test_b.py::TestAll::test_one",)


def test_a_marker_without_a_promise_is_a_fault(tree: Tree) -> None:
    tree.add_test("test_b.py", '@pytest.mark.guarantee("C4")\ndef test_x(): ...\n')
    assert tree.fault().startswith("tests/test_b.py::test_x claims C4, which is not promised")


def test_a_promise_without_a_marker_is_a_fault(tree: Tree) -> None:
    tree.add_test("test_a.py", TESTS.replace('"C1", ', ""))
    assert tree.fault() == "C1 is promised and no test claims it"


def test_a_proof_that_does_not_exist_is_a_fault(tree: Tree) -> None:
    first = tree.page.promises[0]
    gone = replace(first, proofs=(*first.proofs, "tests/test_a.py::test_gone"))
    tree.write(replace(tree.page, promises=(gone, *tree.page.promises[1:])))
    assert tree.fault() == "L2 names tests/test_a.py::test_gone, which does not exist"


def test_proofs_that_are_not_up_to_date_are_a_fault(tree: Tree) -> None:
    tree.add_test("test_b.py", '@pytest.mark.guarantee("C1")\ndef test_x(): ...\n')
    assert "proofs are not up to date" in tree.fault()
    tree.refresh()
    assert faults(tree.root) == []


def test_a_rule_that_is_dropped_from_the_page_is_a_fault(tree: Tree) -> None:
    tree.write(replace(tree.page, drafts=tree.page.drafts[1:]))
    assert f"{tree.page.drafts[0].rule} is missing from {PAGE}" in faults(tree.root)


def test_a_mechanism_that_nobody_named_is_a_fault(tree: Tree) -> None:
    tree.add_test("test_b.py", '@pytest.mark.guarantee("C4")\ndef test_x(): ...\n')
    tree.write(with_proofs(tree.page, scan(tree.root).tests_by_rule, RULES))
    assert tree.fault() == "C4 is promised and its mechanism is not named"


@pytest.mark.parametrize("place", ["code.py::gone", "gone.py::guard", "gone.py"])
def test_a_mechanism_that_does_not_exist_is_a_fault(tree: Tree, place: str) -> None:
    first = replace(tree.page.promises[0], mechanism=f"`{place}`")
    tree.write(replace(tree.page, promises=(first, *tree.page.promises[1:])))
    assert tree.fault().startswith(f"L2 names {place}")


def test_a_race_needs_a_proof_that_forces_it(tree: Tree) -> None:
    tree.add_test("test_b.py", '@pytest.mark.guarantee("L1")\ndef test_x(): ...\n')
    tree.refresh()
    assert tree.fault() == "L1 is a race and no test in tests/races claims it"
    tree.add_test("races/test_b.py", '@pytest.mark.guarantee("L1")\ndef test_x(): ...\n')
    tree.refresh()
    assert faults(tree.root) == []


@pytest.mark.parametrize(
    "marker",
    [
        "RULE = 'C1'\n@pytest.mark.guarantee(RULE)\ndef test_x(): ...\n",
        "CASES = [pytest.param(1, marks=pytest.mark.guarantee('C1'))]\ndef test_x(n): ...\n",
        "@pytest.mark.guarantee('C1')\ndef helper(): ...\n",
    ],
    ids=["computed", "on a parameter", "on a helper"],
)
def test_a_marker_that_nobody_would_read_is_a_fault(tree: Tree, marker: str) -> None:
    tree.add_test("test_b.py", marker)
    assert "a guarantee marker that is not read there" in tree.fault()


def test_an_unknown_rule_is_a_fault(tree: Tree) -> None:
    tree.add_test("test_b.py", '@pytest.mark.guarantee("C99")\ndef test_x(): ...\n')
    assert tree.fault() == "tests/test_b.py::test_x claims C99, which is no rule"


def test_a_page_without_its_headings_is_refused() -> None:
    with pytest.raises(MalformedPageError, match="headings"):
        parse("# Guarantees\n")


def test_the_catalogue_counts_every_rule_once() -> None:
    assert len(RULES) == len(set(RULES)) == 94
