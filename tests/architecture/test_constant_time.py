"""Secrets, digests and MACs are compared by `hmac.compare_digest` alone (I5, X2)."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.tree import REPOSITORY, name_of, python_files

VERIFIERS = (
    "services/ingress/webhooks/signatures.py",
    "services/ingress/webhooks/gitlab.py",
    "shared/rpc/authentication.py",
)
"""Where somebody's secret is judged."""

REVEALING = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
SECRET = re.compile(r"(digest|sha256|signature|secret|token|mac)\b")
BESIDE_THEM = sorted(
    name_of(path)
    for path in python_files()
    if name_of(path).startswith(("services/", "shared/"))
    and name_of(path) not in VERIFIERS
    and "import hmac\n" in path.read_text()
)
"""Who makes MACs and digests among other things."""


def revealing(tree: ast.AST) -> Iterator[ast.Compare]:
    """Comparisons that end at the first difference, unless one side is no secret: a constant."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(operator, REVEALING) and not (is_public(left) or is_public(right)):
                yield node


def is_public(side: ast.expr) -> bool:
    """A literal, a constant by its name, or a length."""
    if isinstance(side, ast.Call):
        return ast.unparse(side.func) == "len"
    return isinstance(side, ast.Constant) or ast.unparse(side).rpartition(".")[2].isupper()


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize("name", [*VERIFIERS, "shared/credentials.py"])
def test_nothing_where_secrets_are_judged_is_compared_in_revealing_time(name: str) -> None:
    assert compared_in(name) == []


@pytest.mark.parametrize("name", BESIDE_THEM)
def test_what_is_called_a_secret_is_not_compared_in_revealing_time(name: str) -> None:
    assert [each for each in compared_in(name) if SECRET.search(each)] == []


def compared_in(name: str) -> list[str]:
    """What a file compares in revealing time."""
    return [ast.unparse(each) for each in revealing(ast.parse((REPOSITORY / name).read_text()))]


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize("name", VERIFIERS)
def test_a_secret_is_judged_in_constant_time(name: str) -> None:
    assert "hmac.compare_digest(" in (REPOSITORY / name).read_text()


@pytest.mark.parametrize(
    "planted", ["given == wanted", "given != mac.digest()", "given in wanted", "1 < 2 and a == b"]
)
def test_a_revealing_comparison_is_found(planted: str) -> None:
    assert list(revealing(ast.parse(planted)))


@pytest.mark.parametrize("harmless", ["len(a) != len(b)", "kind == OTHER", "row is None", "a < b"])
def test_a_harmless_one_is_let_be(harmless: str) -> None:
    assert not list(revealing(ast.parse(harmless)))
