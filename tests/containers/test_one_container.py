"""The whole suite in one container: deploy/one-container.yaml, with its data in a volume."""

import secrets
from collections.abc import Iterator

import pytest

from tests.containers.deployment import Deployment, deployed, free_addresses
from tests.containers.path import new_delivery, post

WEBHOOK_SECRET = secrets.token_urlsafe(24)
DATA = "/var/lib/fencepost"
ENDPOINTS = """
[[endpoint]]
name = "default"
forge = "github"
secret_file = "webhook.secret"

[[endpoint.route]]
action = "container-dispatch"
queue = "reviews"
"""
APPLY = f"""
. {DATA}/keys.env
export FENCEPOST_API_KEY=$OPERATOR_API_KEY
fencepost endpoints apply --tenant default --yes --file {DATA}/endpoints.toml
"""
PROCESSES = """\
import pathlib
for process in pathlib.Path("/proc").glob("[0-9]*"):
    print(process.stat().st_uid, (process / "comm").read_text().strip())
"""


@pytest.fixture(scope="module")
def small() -> Iterator[Deployment]:
    """The small form, up."""
    deployment = Deployment(
        project="fencepost-test-one",
        files=("deploy/one-container.yaml", "tests/containers/compose.hasty-one.yaml"),
        variables=free_addresses(),
    )
    with deployed(deployment):
        declare(deployment)
        yield deployment


def declare(deployment: Deployment) -> None:
    """Declares the endpoint as docs/containers.md says."""
    for name, text in {"webhook.secret": WEBHOOK_SECRET, "endpoints.toml": ENDPOINTS}.items():
        store = f"umask 077; cat > {DATA}/{name}"
        deployment.compose("exec", "--no-TTY", "suite", "sh", "-c", store, said=text)
    deployment.exec("suite", "sh", "-ec", APPLY)


def test_every_process_is_an_ordinary_users(small: Deployment) -> None:
    found = [
        line.split(" ", 1)
        for line in small.exec("suite", "python", "-c", PROCESSES).split("\n")
        if line
    ]
    assert {user for user, _ in found} == {"10001"}
    assert "postgres" in {name for _, name in found}


def test_only_loopback_is_published(small: Deployment) -> None:
    [one] = small.running().values()
    ports = one["NetworkSettings"]["Ports"].values()
    assert {binding["HostIp"] for bindings in ports for binding in bindings} == {"127.0.0.1"}


def test_its_data_and_keys_outlive_the_container(small: Deployment) -> None:
    webhooks = small.variables["PUBLISH_WEBHOOKS"]
    keys = small.exec("suite", "cat", f"{DATA}/keys.env")
    delivery_id = new_delivery()
    assert post(webhooks, WEBHOOK_SECRET, delivery_id) == (202, "accepted")
    small.compose("stop")
    assert small.exit_codes() == {"suite": 0}
    small.compose("down")
    small.up()
    assert small.exec("suite", "cat", f"{DATA}/keys.env") == keys
    assert post(webhooks, WEBHOOK_SECRET, delivery_id)[1] == "duplicate"
