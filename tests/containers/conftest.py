"""The suite in containers, brought up once for all tests that look at it."""

import os
import secrets
from collections.abc import Iterator

import pytest

from tests.containers.deployment import Deployment, deployed, free_addresses

environment = os.environ  # noqa: TID251 - says whether there is an engine, and which images
collect_ignore_glob = [] if environment.get("TRY_CONTAINERS") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of a file pays for bringing its containers up."""
    for item in items:
        item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="module")
def suite() -> Iterator[Deployment]:
    """compose.yaml with a forge beside it."""
    deployment = Deployment(
        project="fencepost-test",
        files=(
            "compose.yaml",
            "tests/containers/compose.players.yaml",
            "tests/containers/compose.hasty.yaml",
        ),
        variables={
            **free_addresses(),
            "PUBLISHER_FORGE_URL": "http://forge:7120",
            "PUBLISHER_FORGE_CALL_PLAINTEXT": "true",
            "PUBLISHER_FORGE_TOKEN_FILE": "/secrets/publisher/forge_token",
            "FORGE_TOKEN": secrets.token_urlsafe(24),
        },
    )
    deployment.compose(
        "run",
        "--rm",
        "--no-TTY",
        "secrets",
        "set",
        "publisher/forge_token",
        said=deployment.variables["FORGE_TOKEN"],
    )
    with deployed(deployment):
        yield deployment
