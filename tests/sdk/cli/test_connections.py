"""`fencepost connections` against a served publisher: shown first, then put, and never a token."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from examples.scripted_forge.client import ScriptedForge
from tests.database_server import as_service
from tests.sdk.cli.conftest import Place
from tests.sdk.cli.terminal import Shell, Told
from tests.services.publisher.connections.conftest import KEY_1
from tests.services.publisher.served import served as served_publisher

TOKEN, NEXT = "ghp_the-first-token", "ghp_the-second-token"


@pytest.fixture(scope="module")
def publisher(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        ScriptedForge.start(tmp_path_factory.mktemp("forge")) as forge,
        served_publisher(
            as_service(place.owner_url, "publisher"), forge, {"PUBLISHER_SEALING_KEYS": KEY_1}
        ) as serving,
    ):
        yield serving.grpc


@pytest.fixture
def cli(shell: Shell, publisher: str, request: pytest.FixtureRequest) -> Shell:
    """A folder with two tokens, for a tenant of the test's own."""
    (shell.folder / "first.token").write_text(f"{TOKEN}\n")
    (shell.folder / "next.token").write_text(NEXT)
    tenant = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60].strip("-")
    return shell.having(FENCEPOST_PUBLISHER=publisher, FENCEPOST_TENANT=tenant)


def put(cli: Shell, *options: str, token: str = "first.token", host: str = "github.com") -> Told:
    return cli.run("connections", "put", host, "--token-file", token, *options)


def document(told: Told) -> Any:
    assert told.code == 0, told
    assert "ghp_" not in told.out + told.err
    return json.loads(told.out)


@pytest.mark.guarantee("K2")
def test_a_connection_is_made_listed_changed_and_never_shows_its_token(cli: Shell) -> None:
    tenant = cli.environment["FENCEPOST_TENANT"]
    made = put(cli, "--yes")
    assert made.code == 0, made
    assert made.out == (
        "+ github.com\n    forge = github\n    base_url = https://api.github.com\n"
        "    token = the given one\n"
        f"The connection of tenant {tenant} to github.com goes to https://api.github.com.\n"
    )
    [listed] = document(cli.run("connections", "list", "--json"))["connections"]
    assert (listed["tenant"], listed["forge_instance"], listed["forge"]) == (
        tenant,
        "github.com",
        "github",
    )
    assert (listed["version"], listed["sealing_key_id"], listed["disabled_at"]) == (1, "k1", None)
    assert not document(put(cli, "--yes", "--json"))["changed"]
    changed = document(put(cli, "--yes", "--json", token="next.token"))
    assert (changed["changed"], changed["connection"]["version"]) == (True, 2)
    moved = put(cli, "--yes", "--base-url", "https://ghe.example.com/api/v3")
    assert "    base_url: https://api.github.com -> https://ghe.example.com/api/v3\n" in moved.out
    assert "https://ghe.example.com/api/v3" in cli.run("connections", "list").out


@pytest.mark.parametrize(
    ("host", "forge", "base_url"),
    [
        ("gitlab.com", None, "https://gitlab.com/api/v4"),
        ("codeberg.org", None, "https://codeberg.org/api/v1"),
        ("ghe.example.com", "github", "https://ghe.example.com/api/v3"),
        ("git.example.com", "gitlab", "https://git.example.com/api/v4"),
        ("tea.example.com", "gitea", "https://tea.example.com/api/v1"),
    ],
)
def test_a_host_tells_where_its_api_usually_is(
    cli: Shell, host: str, forge: str | None, base_url: str
) -> None:
    named = [] if forge is None else ["--forge", forge]
    answer = document(put(cli, "--yes", "--json", *named, host=host))
    assert answer["connection"]["base_url"] == base_url


def test_a_disabled_connection_is_used_again_only_on_demand(cli: Shell) -> None:
    put(cli, "--yes")
    told = cli.run("connections", "disable", "github.com", "--reason", "leaked")
    assert "to github.com is disabled since " in told.out
    assert "is disabled since " in put(cli, "--yes", token="next.token").out
    enabled = cli.run("connections", "put", "github.com", "--enable", "--yes")
    assert enabled.out.startswith("~ github.com\n    disabled: true -> false\n")
    missing = cli.run("connections", "disable", "gitlab.com", "--json")
    assert (missing.code, json.loads(missing.out)["error"]["reason"]) == (1, "RESOURCE_NOT_FOUND")


@pytest.mark.guarantee("K2")
def test_the_token_is_asked_for_unseen_and_nothing_is_put_without_a_yes(cli: Shell) -> None:
    refused = cli.run_in_terminal("connections", "put", "github.com", typed=[TOKEN, "n"])
    assert refused.code == 0, refused
    assert refused.out.endswith("Nothing was put.\n")
    assert TOKEN not in refused.raw
    assert document(cli.run("connections", "list", "--json")) == {"connections": []}
    made = cli.run_in_terminal("connections", "put", "github.com", typed=[TOKEN, "y"])
    assert TOKEN not in made.raw
    assert not document(put(cli, "--yes", "--json"))["changed"], "it is the token of the file"


def test_what_cannot_be_asked_must_be_said(cli: Shell) -> None:
    for arguments, sentence in (
        (("github.com",), "say --yes to put it"),
        (("github.com", "--yes"), "say --token-file"),
        (("ghe.example.com", "--yes", "--token-file", "first.token"), "--forge github|gitlab"),
        (("github.com", "--yes", "--token-file", "none.token"), "cannot be read: No such file"),
    ):
        told = cli.run("connections", "put", *arguments)
        assert (told.code, sentence in told.err) == (2, True), told
    in_clear = put(cli, "--yes", "--base-url", "http://ghe.example.com/api/v3")
    assert (in_clear.code, "would travel in clear" in in_clear.err) == (1, True), in_clear
