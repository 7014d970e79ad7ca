"""The page of guarantees says what the tests show, no more and no less."""

from tests.architecture.tree import REPOSITORY
from tools.guarantees.faults import faults


def test_page_and_markers_agree() -> None:
    assert faults(REPOSITORY) == []
