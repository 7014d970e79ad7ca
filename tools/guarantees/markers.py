"""Finds the guarantee markers in the tests without importing them."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Markers:
    """The tests by rule, every test there is, and the markers that nobody would read."""

    tests_by_rule: dict[str, tuple[str, ...]]
    tests: frozenset[str]
    misplaced: tuple[str, ...]


def scan(repository: Path) -> Markers:
    """Reads all tests of the repository."""
    by_rule: dict[str, set[str]] = defaultdict(set)
    tests: set[str] = set()
    misplaced: list[str] = []
    for path in sorted((repository / "tests").rglob("test_*.py")):
        name = path.relative_to(repository).as_posix()
        tree = ast.parse(path.read_text(), filename=name)
        read: set[int] = set()
        for test, rules in _tests(tree, name, read):
            tests.add(test)
            for rule in rules:
                by_rule[rule].add(test)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        misplaced += [f"{name}:{c.lineno}" for c in calls if _is_marker(c) and id(c) not in read]
    return Markers(
        tests_by_rule={rule: tuple(sorted(found)) for rule, found in sorted(by_rule.items())},
        tests=frozenset(tests),
        misplaced=tuple(misplaced),
    )


def _tests(tree: ast.Module, name: str, read: set[int]) -> Iterator[tuple[str, set[str]]]:
    module_rules = _rules(_module_marks(tree), read)
    for function in _test_functions(tree.body):
        yield f"{name}::{function.name}", module_rules | _rules(function.decorator_list, read)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            class_rules = module_rules | _rules(node.decorator_list, read)
            for function in _test_functions(node.body):
                rules = class_rules | _rules(function.decorator_list, read)
                yield f"{name}::{node.name}::{function.name}", rules


def _test_functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test"):
            yield node


def _module_marks(tree: ast.Module) -> list[ast.expr]:
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(name, ast.Name) and name.id == "pytestmark" for name in node.targets)
    ]
    return [
        mark
        for value in values
        for mark in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
    ]


def _rules(marks: list[ast.expr], read: set[int]) -> set[str]:
    rules: set[str] = set()
    for mark in marks:
        if isinstance(mark, ast.Call) and _is_marker(mark):
            literal = [arg.value for arg in mark.args if isinstance(arg, ast.Constant)]
            if len(literal) == len(mark.args) and literal:
                read.add(id(mark))
                rules.update(str(value) for value in literal)
    return rules


def _is_marker(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "guarantee"
