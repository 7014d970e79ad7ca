"""The servers stand outside the suite: they import nothing of it."""

import ast
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [
    *(EXAMPLES / "scripted_forge").glob("*.py"),
    *(EXAMPLES / "trace_receiver").glob("*.py"),
    EXAMPLES / "child_process.py",
    EXAMPLES / "serving.py",
]
OF_THE_SUITE = {"fencepost", "services", "shared", "tests", "tools"}


def _roots(source: str) -> set[str]:
    modules = [
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_a_file_imports_nothing_of_the_suite(file: Path) -> None:
    assert _roots(file.read_text(encoding="utf-8")) & OF_THE_SUITE == set()
