"""What the import contracts cannot see is banned by name, and an exemption says why."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import REPOSITORY, name_of, python_files

EXEMPTION = re.compile(
    r"# (noqa: [A-Z0-9, ]*(TID251|T201|BLE001|S110)[A-Z0-9, ]*|type: ignore.*?\])"
)
PLANTED = (
    '"""Planted."""\n\n{imports}\n\n\ndef planted() -> object:\n    """Planted."""\n    {body}\n'
)


def lint(file: str, imports: str, body: str) -> str:
    """What ruff says of a function that would stand in this file."""
    ruff = Path(sys.executable).parent / "ruff"
    done = subprocess.run(
        [ruff, "check", "--output-format=concise", f"--stdin-filename={file}", "-"],
        input=PLANTED.format(imports=imports, body=body),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("imports", "body", "code"),
    [
        ("from datetime import UTC, datetime", "return datetime.now(UTC)", "TID251"),
        ("import time", "return time.time()", "TID251"),
        ("import time", "time.sleep(1)", "TID251"),
        ("import os", 'return os.environ["A"]', "TID251"),
        ("import os", 'return os.getenv("A")', "TID251"),
        ("import os", "print(os)", "T201"),
        ("import os", "try:\n        os.close(1)\n    except OSError:\n        pass", "SIM105"),
        (
            "import os",
            "try:\n        os.close(1)\n    except Exception:\n        return 1",
            "BLE001",
        ),
    ],
)
def test_a_banned_call_in_a_service_is_found(imports: str, body: str, code: str) -> None:
    assert f" {code} " in lint("services/ingress/planted.py", imports, body)


@pytest.mark.parametrize(
    "file", ["sdk/fencepost/cli/planted.py", "tools/planted.py", "examples/planted.py"]
)
def test_what_talks_to_a_person_may_print(file: str) -> None:
    assert " T201 " not in lint(file, "import os", "print(os)")


def unexplained(text: str) -> list[str]:
    """Exemptions from the bans, or from the types, that do not say why."""
    return [
        line.strip()
        for line in text.splitlines()
        if (found := EXEMPTION.search(line)) and not line[found.end() :].strip("-#() ")
    ]


def test_every_exemption_says_why() -> None:
    found = {name_of(path): unexplained(path.read_text()) for path in python_files()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_an_unexplained_exemption_is_seen() -> None:
    exempt, typed = "a = 1  # " + "noqa: TID251", "b = 1  # " + "type: ignore[arg-type]"
    assert unexplained(f"{exempt}\n{typed}\n{exempt} - why\n{typed}  # why\n") == [exempt, typed]
