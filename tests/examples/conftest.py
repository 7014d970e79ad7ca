"""One forge for all tests of a worker; each test has a repository of its own in it."""

from collections.abc import Iterator

import pytest

from examples.scripted_forge.client import ScriptedForge
from tests.examples.judged import JudgedRepo, judged_repo


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedForge]:
    """A forge as a process of its own, which must end with status 0."""
    forge = ScriptedForge.start(tmp_path_factory.mktemp("forge"))
    yield forge
    assert forge.stop() == 0


@pytest.fixture
def repo(forge: ScriptedForge) -> Iterator[JudgedRepo]:
    """A fresh repository with one open pull request."""
    with judged_repo(forge) as judged:
        yield judged
