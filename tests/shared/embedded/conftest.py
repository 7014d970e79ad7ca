"""One cluster made per test run; each test gets a copy of it."""

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.embedded import EmbeddedPostgres


@pytest.fixture(scope="session")
def made_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A data folder with a finished cluster that was never used, shared by all test processes."""
    run_folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        run_folder = run_folder.parent
    made = run_folder / "embedded-made"
    with (run_folder / "embedded-made.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            draft = run_folder / "embedded-draft"
            with EmbeddedPostgres(draft):
                pass
            draft.rename(made)
    return made


@pytest.fixture(scope="session")
def running(
    made_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedPostgres]:
    """A running database for tests that only look at it."""
    own_folder = tmp_path_factory.mktemp("running") / "data"
    with EmbeddedPostgres(shutil.copytree(made_folder, own_folder)) as database:
        yield database
    shutil.rmtree(own_folder)


@pytest.fixture
def data_folder(made_folder: Path, new_folder: Path) -> Path:
    """A data folder of this test's own."""
    return shutil.copytree(made_folder, new_folder)


@pytest.fixture
def new_folder(tmp_path: Path) -> Iterator[Path]:
    """Where a data folder of this test's own may be made; pytest would keep its 46 MB for long."""
    new_folder = tmp_path / "deep" / "new"
    yield new_folder
    shutil.rmtree(new_folder, ignore_errors=True)


@pytest.fixture
def database(data_folder: Path) -> Iterator[EmbeddedPostgres]:
    """An embedded database that is stopped after the test; not started yet."""
    database = EmbeddedPostgres(data_folder)
    yield database
    database.stop()
