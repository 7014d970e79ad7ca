"""A function fits a screen and a file tells one story: measured, with named exceptions."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.tree import name_of, python_files

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
MAIN_LINES_MAX = 60
SERVICER_METHOD_LINES_MAX = 15

# What is longer than it should be: its length now, and why. The list may only shrink: an entry
# whose code got shorter or vanished fails until it is lowered or taken out.
EXCEPTIONS: dict[str, tuple[int, str]] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def too_long(name: str, text: str) -> Iterator[tuple[str, int]]:
    """What in one file is longer than it may be, with its length in lines."""
    lines = len(text.splitlines())
    if lines > (MAIN_LINES_MAX if name.endswith("__main__.py") else FILE_LINES_MAX):
        yield name, lines
    for qualified, function in _functions(ast.parse(text)):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        in_servicer = qualified.rpartition(".")[0].endswith("Servicer")
        if length > (SERVICER_METHOD_LINES_MAX if in_servicer else FUNCTION_LINES_MAX):
            yield f"{name}::{qualified}", length


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, Function | ast.ClassDef):
            inner = f"{prefix}{child.name}."
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
        yield from _functions(child, inner)


def test_nothing_is_longer_than_it_may_be() -> None:
    found = dict(
        item for path in python_files() for item in too_long(name_of(path), path.read_text())
    )
    recorded = {name: length for name, (length, _) in EXCEPTIONS.items()}
    assert found == recorded


def body(lines: int, indent: str = "") -> str:
    return "".join(f"{indent}    a = {n}\n" for n in range(lines))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("shared/a.py", "def f():\n" + body(60), [("shared/a.py::f", 61)]),
        ("shared/a.py", "def f():\n" + body(59), []),
        ("shared/a.py", "a = 1\n" * 401, [("shared/a.py", 401)]),
        ("services/a/__main__.py", "a = 1\n" * 61, [("services/a/__main__.py", 61)]),
        (
            "services/a/servicer.py",
            "class AServicer:\n    async def F(self):\n" + body(15, "    "),
            [("services/a/servicer.py::AServicer.F", 16)],
        ),
    ],
)
def test_what_is_too_long_is_seen(name: str, text: str, found: list[tuple[str, int]]) -> None:
    assert list(too_long(name, text)) == found
