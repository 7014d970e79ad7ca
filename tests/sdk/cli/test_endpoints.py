"""`fencepost endpoints` against a served ingress: shown first, then applied, and never a secret."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.database_server import as_service
from tests.sdk.cli.conftest import Place
from tests.sdk.cli.terminal import Shell, Told
from tests.services.ingress.served import Served as ServedIngress
from tests.services.ingress.served import served as served_ingress

SECRET, NEXT = "the first secret of this file", "the second secret of this file"
FILE = """
[[endpoint]]
name = "main"
forge = "github"
secret_file = "webhook.secret"
bot_ids = [7]

[[endpoint.route]]
action = "review"
queue = "reviews"
commands = ["review"]

[[endpoint]]
name = "other"
forge = "gitlab"
proof = "token"
secret_file = "webhook.secret"

[[endpoint.route]]
action = "review"
queue = "reviews"
"""


@pytest.fixture(scope="module")
def ingress(place: Place) -> Iterator[ServedIngress]:
    with served_ingress(as_service(place.owner_url, "ingress")) as ingress:
        yield ingress


@pytest.fixture
def cli(shell: Shell, ingress: ServedIngress, request: pytest.FixtureRequest) -> Shell:
    """A folder that declares two endpoints, for a tenant of the test's own."""
    (shell.folder / "endpoints.toml").write_text(FILE)
    (shell.folder / "webhook.secret").write_text(f"{SECRET}\n")
    (shell.folder / "next.secret").write_text(NEXT)
    tenant = request.node.name.replace("_", "-")[:60]
    return shell.having(FENCEPOST_INGRESS=ingress.grpc, FENCEPOST_TENANT=tenant)


def document(told: Told) -> Any:
    assert told.code == 0, told
    assert SECRET not in told.out + told.err
    return json.loads(told.out)


def apply(cli: Shell, *options: str) -> Told:
    return cli.run("endpoints", "apply", "-f", "endpoints.toml", *options)


@pytest.mark.guarantee("K2")
def test_a_file_is_shown_applied_and_then_as_declared(cli: Shell) -> None:
    shown = apply(cli, "--dry-run")
    assert shown.code == 0, shown
    assert "+ main\n    name = main\n    forge = github\n" in shown.out
    assert shown.out.endswith("Nothing was applied.\n")
    assert document(cli.run("endpoints", "list", "--json")) == {"endpoints": []}

    applied = document(apply(cli, "--yes", "--json"))
    assert applied["applied"]
    assert [(each["name"], each["created"]) for each in applied["endpoints"]] == [
        ("main", True),
        ("other", True),
    ]
    listed = document(cli.run("endpoints", "list", "--json"))["endpoints"]
    assert [each["name"] for each in listed] == ["main", "other"]
    assert listed[0]["routes"][0]["commands"] == ["review"]
    assert (listed[1]["forge"], listed[1]["forge_instance"]) == ("gitlab", "gitlab.com")
    assert [secret["sealing_key_id"] for secret in listed[0]["secrets"]] == ["test"]

    again = apply(cli, "--yes")
    assert (again.code, again.out) == (0, "Everything is as declared.\n")


def test_a_change_is_shown_line_by_line(cli: Shell) -> None:
    apply(cli, "--yes")
    text = FILE.replace("bot_ids = [7]", 'bot_ids = [7, 8]\ntrusted_ids = [9]\ndrafts = "take"')
    (cli.folder / "endpoints.toml").write_text(text)
    told = apply(cli, "--yes")
    assert told.code == 0, told
    assert told.out.startswith(
        "~ main\n    bot_ids: 7 -> 7, 8\n    trusted_ids: (none) -> 9\n    drafts: ignore -> take\n"
        "main takes /webhooks/github/"
    )
    assert document(cli.run("endpoints", "list", "--json"))["endpoints"][0]["trusted_ids"] == [9]


def test_nothing_is_applied_where_nobody_can_be_asked(cli: Shell) -> None:
    for options in ((), ("--json",)):
        told = apply(cli, *options)
        assert told.code == 2
        assert "--yes" in told.err


@pytest.mark.guarantee("I5", "K2")
def test_a_secret_is_replaced_with_an_overlap(cli: Shell) -> None:
    apply(cli, "--yes")
    rotate = ("endpoints", "rotate", "main", "--secret-file", "next.secret")
    told = cli.run(*rotate, "--overlap", "1h")
    assert told.code == 0, told
    assert "Endpoint main has a new secret" in told.out
    assert "Secret 1 counts until" in told.out
    assert NEXT not in told.out + told.err
    assert not document(cli.run(*rotate, "--json"))["rotated"]
    refused = apply(cli, "--yes")
    assert refused.code == 1
    assert "RotateEndpointSecret" in refused.err


def test_a_disabled_endpoint_is_enabled_only_on_demand(cli: Shell) -> None:
    apply(cli, "--yes")
    told = cli.run("endpoints", "disable", "main", "--reason", "leaked")
    assert told.out.startswith("Endpoint main is disabled since ")
    assert apply(cli, "--yes").out == "Everything is as declared.\n"
    enabled = apply(cli, "--yes", "--enable")
    assert enabled.out.startswith("~ main\n    disabled: true -> (none)\n")
    missing = cli.run("endpoints", "disable", "nobody", "--json")
    assert (missing.code, json.loads(missing.out)["error"]["reason"]) == (1, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[endpoint", "is no TOML"),
        ("x = 1", "[[endpoint]] tables"),
        (FILE + FILE, "declares main, other twice"),
        (
            FILE.replace("bot_ids", "bots"),
            'endpoint 1: Message type "fencepost.ingress.v1.Endpoint"',
        ),
        (FILE.replace("bot_ids = [7]", 'tenant = "x"'), "tenant cannot be declared"),
        (FILE.replace('"github"', '"gogs"'), "endpoint 1"),
        (FILE.replace("webhook.secret", "none.secret"), "cannot be read: No such file"),
        (FILE.replace("webhook.secret", "empty.secret"), "must hold one secret"),
    ],
)
def test_a_file_that_declares_none_is_told(cli: Shell, text: str, sentence: str) -> None:
    (cli.folder / "endpoints.toml").write_text(text)
    (cli.folder / "empty.secret").write_text("\n")
    told = apply(cli, "--yes")
    assert told.code == 2, told
    assert sentence in told.err
