"""compose.yaml on a real engine, from nothing made by hand to a review on a forge."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.scripted_forge.client import PullFixture, ScriptedForge
from examples.trace_receiver.client import TraceReceiver
from tests.containers.deployment import SERVICES, Deployment, docker
from tests.containers.path import PULL, await_publication, bot, new_delivery, post
from tests.waiting import until_sync

HOLDERS = ("database", "owner", "ingress", "dispatcher", "publisher", "watchdog")
STOPS_WITHIN_S = 30.0
ORDINARY = {"Uid": "10001", "CapEff": "0000000000000000", "NoNewPrivs": "1"}
CONFINED = {"ReadonlyRootfs": True, "CapDrop": ["ALL"], "CapAdd": None, "Privileged": False}
TRACED = {"ingress", "dispatcher", "publisher"}


@dataclass(frozen=True)
class Outsider:
    """What a person with this machine's loopback and the operator's keys has."""

    suite: Deployment
    keys: Mapping[str, str]
    webhook_secret: str

    def at(self, name: str) -> str:
        """The published address, host:port."""
        return self.suite.variables[f"PUBLISH_{name}"]


@pytest.fixture(scope="module")
def outsider(suite: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Outsider:
    """Somebody who has fetched the keys as docs/containers.md says."""
    folder = tmp_path_factory.mktemp("keys")
    keys = {
        holder: suite.copy(f"bootstrap:/secrets/{holder}/api_key", folder / holder)
        for holder in ("operator", "worker")
    }
    secret = suite.copy("secrets:/secrets/operator/webhook_secret", folder / "webhook_secret")
    return Outsider(suite, keys, secret)


@pytest.fixture
def forge(outsider: Outsider) -> Iterator[ScriptedForge]:
    """The forge that the publisher writes to, with the pull request of the payload."""
    url, token = f"http://{outsider.at('FORGE')}", outsider.suite.variables["FORGE_TOKEN"]
    with ScriptedForge(url, token) as found:
        pull = PullFixture(number=PULL.number, head_sha=PULL.head_sha, base_sha=PULL.base_sha)
        found.add_repo(PULL.repo_name, pull, repo_id=PULL.repo_id)
        yield found


def test_one_webhook_becomes_one_review(
    outsider: Outsider, forge: ScriptedForge, tmp_path: Path
) -> None:
    delivery_id = new_delivery()
    with bot(
        dispatcher=outsider.at("DISPATCHER"),
        publisher=outsider.at("PUBLISHER"),
        api_key=outsider.keys["worker"],
        log=tmp_path / "bot.log",
    ):
        posted = post(outsider.at("WEBHOOKS"), outsider.webhook_secret, delivery_id)
        assert posted == (202, "accepted")
        events = await_publication(outsider.at("WATCHDOG"), outsider.keys["operator"], delivery_id)
    again = post(outsider.at("WEBHOOKS"), outsider.webhook_secret, delivery_id)
    assert again[1] == "duplicate"
    assert len([event for event in events if event.kind == "checkpoint.flushed"]) == 3
    [review] = forge.reviews(PULL.repo_name, PULL.number)
    assert review.commit_id == PULL.head_sha
    [trace_id] = {event.trace_id for event in events if event.kind == "delivery.accepted"}
    shown = outsider.suite.compose("run", "--rm", "--no-TTY", "cli", "timeline", delivery_id)
    assert PULL.repo_name in shown
    if outsider.suite.running()["collector"]["Config"]["Cmd"][-1] == "0.0.0.0:4318":
        http_url = f"http://{outsider.at('SPANS')}"
        with TraceReceiver(otlp_endpoint="", http_url=http_url) as receiver:
            until_sync(
                lambda: {span.service_name for span in receiver.spans(trace_id)} >= TRACED,
                what="spans of every service at the collector",
            )


def test_a_webhook_with_another_secret_is_refused(outsider: Outsider) -> None:
    assert post(outsider.at("WEBHOOKS"), "another", new_delivery())[0] == 401


def test_every_process_is_an_ordinary_users_without_privileges(suite: Deployment) -> None:
    running = suite.running()
    for service in SERVICES:
        status = suite.exec(service, "cat", "/proc/1/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert {name: fields[name].split("\t")[0] for name in ORDINARY} == ORDINARY
    for service in (*SERVICES, "database", "collector"):
        host = running[service]["HostConfig"]
        confined = {
            name: host[name] for name in ("ReadonlyRootfs", "CapDrop", "CapAdd", "Privileged")
        }
        assert confined == CONFINED, service
        assert "no-new-privileges:true" in host["SecurityOpt"], service
    assert suite.exec("database", "id", "-un").strip() == "postgres"


def test_only_loopback_is_published(suite: Deployment) -> None:
    for service, one in suite.running().items():
        published = [
            binding["HostIp"]
            for bindings in one["NetworkSettings"]["Ports"].values()
            for binding in bindings or []
        ]
        assert set(published) <= {"127.0.0.1"}, service
        assert bool(published) == (service != "database")


def test_by_default_only_loopback_is_published_and_only_by_services() -> None:
    plain = Deployment("fencepost-test", ("compose.yaml",), {})
    model = json.loads(plain.compose("config", "--format", "json"))
    published = {
        name: {(port["host_ip"], port["published"]) for port in service.get("ports", [])}
        for name, service in model["services"].items()
    }
    assert {name for name, ports in published.items() if ports} == set(SERVICES)
    assert published["ingress"] == {("127.0.0.1", "7100"), ("127.0.0.1", "7101")}
    assert {host for ports in published.values() for host, _ in ports} == {"127.0.0.1"}


def test_each_sees_its_own_secrets_alone(suite: Deployment) -> None:
    def seen(service: str) -> set[str]:
        found = suite.exec(service, "sh", "-c", "find /secrets -type f 2>/dev/null || :")
        return {line.removeprefix("/secrets/") for line in found.split()}

    assert {service: seen(service) for service in (*SERVICES, "database")} == {
        "ingress": {"ingress/database_url", "ingress/api_key", "ingress/sealing_keys"},
        "dispatcher": {"dispatcher/database_url", "dispatcher/api_key"},
        "publisher": {
            "publisher/database_url",
            "publisher/forge_token",
            "publisher/sealing_keys",
        },
        "watchdog": {"watchdog/database_url"},
        "database": {"database/owner_password", "database/superuser_password"},
    }


def test_no_secret_stands_in_a_containers_settings(suite: Deployment, outsider: Outsider) -> None:
    settings = "\n".join(
        line
        for service, one in suite.running().items()
        if service != "forge"
        for line in one["Config"]["Env"]
    )
    held = [*outsider.keys.values(), outsider.webhook_secret, suite.variables["FORGE_TOKEN"]]
    assert not [secret for secret in held if secret in settings]
    assert "postgresql://" not in settings


def test_the_database_is_out_of_the_forges_reach(suite: Deployment) -> None:
    code = (
        "import socket,sys\n"
        "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)\n"
        "except OSError as error: print(type(error).__name__)\n"
        "else: print('connected')"
    )
    [address] = [
        network["IPAddress"]
        for network in suite.running()["database"]["NetworkSettings"]["Networks"].values()
    ]
    for host in ("database", address):
        assert suite.exec("forge", "python", "-c", code, host, "5432").strip() != "connected"
        assert suite.exec("watchdog", "python", "-c", code, host, "5432").strip() == "connected"


def fingerprints(suite: Deployment) -> dict[str, str]:
    """Digests of all that the one-shot steps made, by folder."""
    made = {"secrets": HOLDERS, "bootstrap": ("operator", "worker")}
    found = {}
    for step, holders in made.items():
        container = suite.compose("ps", "--all", "--quiet", step).strip()
        for holder in holders:
            archive = docker("cp", f"{container}:/secrets/{holder}", "-")
            found[holder] = hashlib.sha256(archive.encode()).hexdigest()
    return found


def test_a_second_up_makes_no_secret_and_no_key_anew(suite: Deployment) -> None:
    before = fingerprints(suite)
    started = {name: one["State"]["StartedAt"] for name, one in suite.running().items()}
    assert len(set(before.values())) == len(before)
    suite.up()
    assert fingerprints(suite) == before
    assert {n: one["State"]["StartedAt"] for n, one in suite.running().items()} == started
    assert "Nothing was missing." in suite.compose("logs", "--no-log-prefix", "secrets")


def test_a_service_that_is_killed_comes_back(suite: Deployment) -> None:
    before = suite.running()["dispatcher"]
    kill = f"import os; os.kill({before['State']['Pid']}, 9)"
    image = before["Config"]["Image"]
    docker("run", "--rm", "--pid=host", "--network=none", image, "python", "-c", kill)

    def restarted() -> bool:
        now = suite.running().get("dispatcher")
        return now is not None and now["RestartCount"] == before["RestartCount"] + 1

    until_sync(restarted, deadline_s=30.0, what="it to be started again")
    suite.await_health()


def test_services_outlive_a_restart_of_the_database(suite: Deployment) -> None:
    before = {name: suite.running()[name]["State"]["StartedAt"] for name in SERVICES}
    suite.compose("restart", "database")
    suite.await_health()
    assert {name: suite.running()[name]["State"]["StartedAt"] for name in SERVICES} == before


def test_all_stop_by_themselves_in_time_and_come_back(
    suite: Deployment, outsider: Outsider
) -> None:
    delivery_id = new_delivery()
    post(outsider.at("WEBHOOKS"), outsider.webhook_secret, delivery_id)
    began_s = time.monotonic()
    suite.compose("stop")
    assert time.monotonic() - began_s < STOPS_WITHIN_S
    ended = suite.exit_codes()
    assert {ended[name] for name in (*SERVICES, "database", "collector")} == {0}
    suite.up()
    again = post(outsider.at("WEBHOOKS"), outsider.webhook_secret, delivery_id)
    assert again[1] == "duplicate"
