"""What every test may ask for: a database of its own, as its owner or as a service's role."""

import gc
from collections.abc import Callable, Iterator

import pytest

from shared.schema.grants import Service
from tests.database_server import DatabaseServer, as_service

LONGEST = "tests/system/"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: a worker that came to them last would end long after the others."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


# Of what is loaded while tests are collected, nothing is garbage: looking takes a quarter of it.
gc.disable()


def pytest_collection_finish() -> None:
    """All that was loaded by now stays: looking through it for garbage takes a tenth of the run."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def database_server(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[DatabaseServer]:
    """The one server of the whole run."""
    run_folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        run_folder = run_folder.parent
    server = DatabaseServer.of_run(run_folder / "database")
    yield server
    server.close()


@pytest.fixture
def owner_url(database_server: DatabaseServer) -> Iterator[str]:
    """The owner's URL of a migrated database that only this test uses."""
    yield from database_server.each_database()


@pytest.fixture
def service_url(owner_url: str) -> Callable[[Service], str]:
    """URL of the same database as a service's role: `service_url("ingress")`."""
    return lambda service: as_service(owner_url, service)
