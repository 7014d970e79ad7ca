"""The import contracts hold, and each of them sees a breach planted in a copy of the tree."""

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOTS = ("services", "shared", "sdk", "examples", "tools", "pyproject.toml")


@dataclass(frozen=True, kw_only=True)
class Breach:
    """Files to plant, and the words by which the broken contract is known."""

    contract: str
    files: dict[str, str]


BREACHES = (
    Breach(
        contract="Inside a service imports go one way",
        files={
            "services/ingress/operations_planted.py": "",
            "services/ingress/store_planted.py": "import services.ingress.operations_planted\n",
        },
    ),
    Breach(
        contract="Inside a service imports go one way",
        files={
            "services/ingress/operations_planted.py": "",
            "services/ingress/aside.py": "import services.ingress.operations_planted\n",
            "services/ingress/store_planted.py": "import services.ingress.aside\n",
        },
    ),
    Breach(
        contract="Inside a service imports go one way",
        files={
            "services/ingress/rules_planted.py": "",
            "services/ingress/store_planted.py": "import services.ingress.rules_planted\n",
        },
    ),
    Breach(
        contract="Inside a service imports go one way",
        files={
            "services/ingress/planted_client.py": "",
            "services/ingress/operations_planted.py": "import services.ingress.planted_client\n",
        },
    ),
    Breach(
        contract="Services never import one another",
        files={"services/ingress/planted.py": "import services.publisher\n"},
    ),
    Breach(
        contract="Whatever starts the services imports none of them",
        files={"services/__main__.py": "import services.publisher\n"},
    ),
    Breach(
        contract="Shared code never imports a service or an example",
        files={"shared/planted.py": "import services.ingress\n"},
    ),
    Breach(
        contract="The SDK stands alone",
        files={"sdk/fencepost/planted.py": "import shared\n"},
    ),
    Breach(
        contract="The SDK imports only what its wheel declares",
        files={"sdk/fencepost/planted.py": "import structlog\n"},
    ),
    Breach(
        contract="Rules are pure",
        files={"services/ingress/rules_planted.py": "import psycopg\n"},
    ),
    Breach(
        contract="SQL stands only in stores",
        files={"services/ingress/operations_planted.py": "import sqlalchemy\n"},
    ),
    Breach(
        contract="The wire is known to servicers",
        files={"services/ingress/operations_planted.py": "import grpc\n"},
    ),
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree in which nothing is planted yet."""
    copy = tmp_path_factory.mktemp("tree")
    skip = shutil.ignore_patterns("__pycache__")
    for name in ROOTS:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, copy / name, ignore=skip)
        else:
            shutil.copy(REPOSITORY / name, copy / name)
    return copy


def lint(tree: Path) -> dict[str, bool]:
    """Whether each contract is kept, by its name."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--cache-dir=.import_cache"],
        cwd=tree,
        env={"PYTHONPATH": f"{tree}:{tree / 'sdk'}", "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = {
        line.rsplit(" ", 1)[0]: line.endswith(" KEPT")
        for line in done.stdout.splitlines()
        if line.endswith((" KEPT", " BROKEN"))
    }
    assert verdicts, done.stdout + done.stderr
    assert all(verdicts.values()) == (done.returncode == 0)
    return verdicts


def test_all_contracts_are_kept(tree: Path) -> None:
    broken = [name for name, kept in lint(tree).items() if not kept]
    assert broken == []


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: next(reversed(breach.files)))
def test_a_planted_breach_is_found(breach: Breach, tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(tree, copy)
    for name, text in breach.files.items():
        (copy / name).write_text(text)
    broken = [name for name, kept in lint(copy).items() if not kept]
    assert any(name.startswith(breach.contract) for name in broken)


def test_every_contract_has_a_planted_breach() -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    names = [contract["name"] for contract in declared["contracts"]]
    unproven = [n for n in names if not any(n.startswith(b.contract) for b in BREACHES)]
    assert unproven == []
