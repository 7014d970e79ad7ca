"""Secrets, digests and MACs are compared by `hmac.compare_digest` alone (I5, X2)."""

import ast
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
KNOWING = sorted(
    {
        *VERIFIERS,
        "shared/credentials.py",
        *(
            name_of(path)
            for path in python_files()
            if name_of(path).startswith(("services/", "shared/"))
            and "import hmac\n" in path.read_text()
        ),
    }
)
"""These, and whoever makes a MAC."""


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
@pytest.mark.parametrize("name", KNOWING)
def test_nothing_where_secrets_are_judged_is_compared_in_revealing_time(name: str) -> None:
    tree = ast.parse((REPOSITORY / name).read_text())
    assert [ast.unparse(node) for node in revealing(tree)] == []


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
