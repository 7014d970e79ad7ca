"""Doors that the cases knock at, one a module."""

from collections.abc import Iterator

import pytest

from tests.cases.asking import ENDPOINT_OF_BOTS
from tests.database_server import DatabaseServer
from tests.services.ingress.webhooks.gitlab_posting import GitLab, gitlab
from tests.services.ingress.webhooks.posting import Door, opened


@pytest.fixture(scope="module")
def github(database_server: DatabaseServer) -> Iterator[Door]:
    """A running ingress with an endpoint for GitHub."""
    with opened(database_server) as door:
        yield door


@pytest.fixture(scope="module")
def merges(database_server: DatabaseServer) -> Iterator[GitLab]:
    """A running ingress with an endpoint for GitLab's signed webhooks."""
    with gitlab(database_server, "signature") as hook:
        yield hook


@pytest.fixture(scope="module")
def bots(database_server: DatabaseServer) -> Iterator[Door]:
    """A running ingress with a GitHub endpoint that takes commands and checks for a bot."""
    with opened(database_server, endpoint=ENDPOINT_OF_BOTS) as door:
        yield door
