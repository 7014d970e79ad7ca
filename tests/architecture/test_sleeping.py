"""Tests wait for conditions: only one module sleeps."""

import ast

from tests.architecture.tree import name_of, python_files

HOME = "tests/waiting.py"


def sleeps(text: str) -> list[int]:
    """Lines that sleep for a time; `asyncio.sleep(0)` gives way and waits for nothing."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return sorted(call.lineno for call in calls if _waits(call))


def _waits(call: ast.Call) -> bool:
    is_sleep = ast.unparse(call.func) in ("asyncio.sleep", "time.sleep", "sleep")
    return is_sleep and ast.unparse(call.args[0]) != "0"


def test_no_test_sleeps() -> None:
    found = {
        name_of(path): lines
        for path in python_files()
        if name_of(path).startswith("tests/") and name_of(path) != HOME
        if (lines := sleeps(path.read_text()))
    }
    assert found == {}


def test_sleeping_is_seen() -> None:
    assert sleeps("await asyncio.sleep(0)\nawait asyncio.sleep(0.1)\ntime.sleep(1)\n") == [2, 3]
