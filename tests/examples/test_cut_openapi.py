"""The cut keeps what the operations reach, unchanged, and nothing else."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.published.github.description import SOURCE
from tools.cut_openapi import OPERATIONS, CutError, cut

ROOT = Path(__file__).parents[2]


def _described() -> dict[str, object]:
    reached = {
        "thing": {"properties": {"owner": {"$ref": "#/components/schemas/owner"}}},
        "owner": {"discriminator": {"mapping": {"a": "#/components/schemas/app"}}},
        "app": {"properties": {"things": {"items": {"$ref": "#/components/schemas/thing"}}}},
    }
    answer = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/thing"}}}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "t"},
        "tags": [{"name": "unused"}],
        "paths": {
            "/things": {"get": {"responses": {"200": answer}}, "post": {"responses": {}}},
            "/others": {"get": {"responses": {}}},
        },
        "components": {"schemas": {**reached, "unused": {"type": "string"}}},
    }


def test_components_are_followed_through_cycles_and_discriminators() -> None:
    description = _described()
    before = copy.deepcopy(description)

    result = cut(description, {"/things": ("get",)})

    schemas = result["components"]["schemas"]  # type: ignore[index] # as built above
    assert sorted(schemas) == ["app", "owner", "thing"]
    assert result["paths"] == {"/things": {"get": description["paths"]["/things"]["get"]}}  # type: ignore[index] # as built above
    assert set(result) == {"openapi", "info", "paths", "components"}
    assert description == before


@pytest.mark.parametrize(
    ("operations", "missing"),
    [
        ({"/nothing": ("get",)}, "paths > /nothing > get"),
        ({"/things": ("delete",)}, "paths > /things > delete"),
    ],
)
def test_an_operation_that_is_not_described_is_named(
    operations: dict[str, tuple[str, ...]], missing: str
) -> None:
    with pytest.raises(CutError, match=missing):
        cut(_described(), operations)


def test_the_committed_cut_is_whole_and_as_the_script_writes_it(tmp_path: Path) -> None:
    output = tmp_path / "openapi.json"
    command = [sys.executable, "-m", "tools.cut_openapi", str(SOURCE), str(output)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=30)

    assert output.read_bytes() == SOURCE.read_bytes()
    assert set(json.loads(output.read_bytes())["paths"]) == set(OPERATIONS)
