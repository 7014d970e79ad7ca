"""Goal: importing the SDK is light, and a bot needs nothing beside it."""

import ast
import json
import subprocess
import sys

import fencepost
import pytest

from tests.service_process import ROOT

IMPORT_WITHIN_S = 0.3
"""Of a processor: what else the machine does is no fault of the package."""


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = """
import json, sys, time
before = time.process_time()
import fencepost
print(json.dumps([time.process_time() - before, sorted(sys.modules)]))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    took_s, modules = json.loads(told.stdout)
    assert took_s < IMPORT_WITHIN_S
    assert not {"grpc", "google.protobuf", "protovalidate", "opentelemetry"} & set(modules)


@pytest.mark.parametrize("name", fencepost.__all__)
def test_each_public_name_is_found(name: str) -> None:
    found = getattr(fencepost, name)
    assert found.__name__ == name
    assert found.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Wroker'"):
        _ = fencepost.Wroker


def test_the_bot_of_the_readme_imports_the_sdk_alone_and_is_short() -> None:
    text = (ROOT / "examples/demo_bot/__main__.py").read_text()
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    assert [(each.module, [name.name for name in each.names]) for each in imports] == [
        ("fencepost", ["Run", "Worker"])
    ]
    assert not any(isinstance(node, ast.Import) for node in ast.walk(ast.parse(text)))
    assert len([line for line in text.splitlines() if line.strip()]) <= 20
