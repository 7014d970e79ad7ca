"""The generated pages say what the code says, all of it."""

import re
from pathlib import Path

from fencepost.environment import VARIABLES

from shared.schema.states import LEASE_EDGES
from tests.architecture.tree import REPOSITORY, python_files
from tools.docs import configuration, metrics, states
from tools.docs.__main__ import PAGES, stale

METRIC = re.compile(r'= (?:Counter|Gauge|Histogram|Summary)\(\s*"([a-z_]+)"')


def test_the_pages_are_fresh() -> None:
    assert stale(REPOSITORY / "docs") == []


def test_a_stale_and_a_missing_page_are_seen(tmp_path: Path) -> None:
    (tmp_path / "states.md").write_text(states.page() + "more\n")
    assert stale(tmp_path) == list(PAGES)


def test_every_setting_is_on_the_page() -> None:
    page = configuration.page()
    for service in configuration.SERVICES:
        for name, info in configuration.settings_of(service).model_fields.items():
            variable = f"{service.upper()}_{name.upper()}"
            assert f"| `{variable}`" in page or f"| `FENCEPOST_{name.upper()}`" in page
            if info.is_required():
                assert "| must be set |" in next(p for p in page.splitlines() if variable in p)


def test_a_secret_may_stand_in_a_file() -> None:
    assert "`INGRESS_API_KEY` or `INGRESS_API_KEY_FILE`" in configuration.page()


def test_every_variable_of_a_client_is_on_the_page() -> None:
    rows = [line for line in configuration.page().splitlines() if line.startswith("| `FENCEPOST_")]
    for variable in VARIABLES:
        [row] = [row for row in rows if f"`{variable.name}`" in row]
        assert variable.meaning in row
        assert variable.option in row


def test_every_edge_is_on_the_page() -> None:
    lines = states.page().splitlines()
    for edge in LEASE_EDGES:
        assert any(
            line.startswith(f"    {edge.source or '[*]'} --> {edge.target}:") for line in lines
        )


def test_every_metric_is_on_the_page() -> None:
    declared = [
        name
        for file in python_files()
        if file.is_relative_to(REPOSITORY / "services")
        or file.is_relative_to(REPOSITORY / "shared")
        for name in METRIC.findall(file.read_text())
    ]
    rows = [line.split(" | ")[0].strip("| `") for line in metrics.page().splitlines()]
    shown = [name for name in rows if name in declared]
    assert sorted(shown) == sorted(declared)
    assert len(declared) > 20


def test_a_metric_is_shown_with_its_labels_and_unit() -> None:
    lines = metrics.page().splitlines()
    assert (
        "| `rpc_server_duration_seconds` | histogram | `method`, `code` | seconds |"
        " How long calls took, by method and gRPC status code. |"
    ) in lines
    assert any(line.startswith("| `process_resident_memory_bytes` | gauge |") for line in lines)
