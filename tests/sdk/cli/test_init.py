"""`fencepost init` from nothing to a delivery that is believed and a token that reads."""

import json
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from examples.scripted_forge.client import ScriptedForge
from tests.database_server import as_service
from tests.sdk.cli.conftest import Place
from tests.sdk.cli.terminal import Shell
from tests.services.ingress.served import Served as ServedIngress
from tests.services.ingress.served import served as served_ingress
from tests.services.publisher.connections.conftest import KEY_1
from tests.services.publisher.served import served as served_publisher

PAGES = {
    "github": "https://github.com/octo/gears/settings/hooks/new",
    "gitlab": "https://gitlab.com/octo/gears/-/hooks",
    "forgejo": "https://code.example.org/octo/gears/settings/hooks/forgejo/new",
    "gitea": "https://code.example.org/octo/gears/settings/hooks/gitea/new",
}
SIGNING_TOKEN = "whsec_c2lnbmluZyBrZXkgb2YgYSB0ZXN0"


@pytest.fixture(scope="module")
def ingress(place: Place) -> Iterator[ServedIngress]:
    with served_ingress(as_service(place.owner_url, "ingress")) as ingress:
        yield ingress


@pytest.fixture(scope="module")
def scripted_forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedForge]:
    with ScriptedForge.start(tmp_path_factory.mktemp("forge")) as forge:
        forge.add_repo("octo/gears")
        yield forge


@pytest.fixture(scope="module")
def publisher(place: Place, scripted_forge: ScriptedForge) -> Iterator[str]:
    environment = {"PUBLISHER_SEALING_KEYS": KEY_1}
    with served_publisher(
        as_service(place.owner_url, "publisher"), scripted_forge, environment
    ) as publisher:
        yield publisher.grpc


@pytest.fixture
def cli(
    shell: Shell, ingress: ServedIngress, publisher: str, request: pytest.FixtureRequest
) -> Shell:
    """An empty folder, for a tenant of the test's own."""
    tenant = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60].strip("-")
    return shell.having(
        FENCEPOST_INGRESS=ingress.grpc, FENCEPOST_PUBLISHER=publisher, FENCEPOST_TENANT=tenant
    )


def options(forge: str, ingress: ServedIngress) -> list[str]:
    host = ["--host", "code.example.org"] if forge in ("forgejo", "gitea") else []
    return [forge, "--repo", "octo/gears", "--door", f"http://{ingress.webhooks}", *host]


@pytest.mark.guarantee("K2")
@pytest.mark.parametrize("forge", PAGES)
def test_a_forge_is_set_up_and_tried_and_again(
    cli: Shell, ingress: ServedIngress, forge: str
) -> None:
    told = cli.run("init", *options(forge, ingress), "--json")
    assert told.code == 0, told
    document: dict[str, Any] = json.loads(told.out)
    assert document["created"]
    assert document["page"] == PAGES[forge]
    assert document["test_delivery"]["status"] == 200
    assert document["test_delivery"]["answer"]["outcome"] == "ignored"
    assert document["webhook_url"].startswith(f"http://{ingress.webhooks}/webhooks/{forge}/")
    for name in ("main.secret", "main.toml"):
        assert stat.S_IMODE((cli.folder / name).stat().st_mode) == 0o600
    secret = (cli.folder / "main.secret").read_text().strip()
    assert secret not in told.out + told.err
    assert (document["connection"], document["forge_read"]) == (None, None)

    again = cli.run("init", *options(forge, ingress))
    assert again.code == 0, again
    assert "is as declared." in again.out
    assert f"Open       {PAGES[forge]}" in again.out
    assert "was answered 200: ignored (" in again.out
    assert (cli.folder / "main.secret").read_text().strip() == secret
    assert secret not in again.out
    tenant = cli.environment["FENCEPOST_TENANT"]
    assert f"put {document['endpoint']['forge_instance']} --tenant {tenant}`." in again.out


@pytest.mark.guarantee("K2")
def test_the_connection_is_made_too_and_its_token_is_tried(
    cli: Shell, ingress: ServedIngress, scripted_forge: ScriptedForge
) -> None:
    (cli.folder / "forge.token").write_text(f"{scripted_forge.token}\n")
    (cli.folder / "wrong.token").write_text("ghp_a-token-of-nobody")
    given = ("init", *options("github", ingress), "--base-url", scripted_forge.url, "--token-file")
    wrong = cli.run(*given, "wrong.token")
    assert (wrong.code, "answered 401: it refuses the token" in wrong.out) == (1, True), wrong
    told = cli.run(*given, "forge.token", "--json")
    assert told.code == 0, told
    document = json.loads(told.out)
    assert document["connection"]["base_url"] == scripted_forge.url
    assert document["forge_read"]["status"] == 200
    assert scripted_forge.token not in told.out + told.err
    again = cli.run("init", *options("github", ingress))
    assert again.code == 0, again
    assert f"goes to {scripted_forge.url}. Its token is tried with the first review." in again.out


@pytest.mark.guarantee("K2")
def test_in_a_terminal_the_token_is_asked_for_unseen(
    cli: Shell, ingress: ServedIngress, scripted_forge: ScriptedForge
) -> None:
    given = ("init", *options("github", ingress), "--base-url", scripted_forge.url)
    later = cli.run_in_terminal(*given, typed=[""])
    assert (later.code, "There is no connection to github.com yet" in later.out) == (0, True)
    told = cli.run_in_terminal(*given, typed=[scripted_forge.token])
    assert (told.code, "Its token reads octo/gears" in told.out) == (0, True), told
    assert scripted_forge.token not in told.raw


def test_what_is_not_said_is_asked(cli: Shell, ingress: ServedIngress) -> None:
    answers = f"code.example.org\nocto/gears\nhttp://{ingress.webhooks}\n"
    told = cli.run("init", "gitea", stdin=answers.encode())
    assert told.code == 0, told
    assert "Host of the forge: " in told.out
    assert PAGES["gitea"] in told.out
    refused = cli.run("init", "gitea", "--json")
    assert (refused.code, "say --host" in refused.err) == (2, True)


def test_a_signing_token_of_gitlabs_is_signed_with(cli: Shell, ingress: ServedIngress) -> None:
    (cli.folder / "main.secret").write_text(SIGNING_TOKEN)
    (cli.folder / "main.toml").write_text(
        """
[[endpoint]]
name = "main"
forge = "gitlab"
secret_file = "main.secret"
[[endpoint.route]]
action = "review"
queue = "reviews"
"""
    )
    told = cli.run("init", *options("gitlab", ingress))
    assert told.code == 0, told
    assert "was answered 200: ignored" in told.out


def test_a_door_that_nobody_opens_and_a_file_of_another_are_told(
    cli: Shell, ingress: ServedIngress
) -> None:
    closed = cli.run("init", "github", "--repo", "octo/gears", "--door", "http://127.0.0.1:9")
    assert closed.code == 3
    assert "A signed test delivery got no answer: " in closed.out
    other = cli.run("init", *options("gitlab", ingress))
    assert (other.code, "declares something else" in other.err) == (2, True)
    (cli.folder / "main.secret").write_text("a secret that was never declared")
    changed = cli.run("init", *options("github", ingress))
    assert (changed.code, "RotateEndpointSecret" in changed.err) == (1, True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--door", "hooks.example.com"),
        ("--door", "http://[::1"),
        ("--base-url", "api.example"),
        ("--repo", "a b"),
        ("--repo", "é/ü"),
        ("--repo", "gears"),
        ("--repo", "octo/group/gears"),
    ],
)
def test_a_form_that_cannot_be_is_refused_before_anything_is_made(
    cli: Shell, ingress: ServedIngress, option: str, value: str
) -> None:
    told = cli.run("init", *options("github", ingress), option, value)
    assert (told.code, told.err.startswith(f"{option} ")) == (2, True), told
    assert list(cli.folder.iterdir()) == []


def test_a_door_that_speaks_no_http_is_told(cli: Shell, ingress: ServedIngress) -> None:
    door = f"http://{ingress.grpc}"
    told = cli.run("init", "github", "--repo", "octo/gears", "--door", door)
    assert (told.code, told.err) == (3, ""), told
    assert "A signed test delivery got no answer: " in told.out


def test_a_refused_connection_leaves_no_endpoint(cli: Shell, ingress: ServedIngress) -> None:
    (cli.folder / "forge.token").write_text("ghp_a-token-of-nobody")
    refused = cli.run(
        "init", *options("github", ingress),
        "--base-url", "http://api.example", "--token-file", "forge.token",
    )  # fmt: skip
    assert refused.code == 1, refused
    listed = cli.run("endpoints", "list", "--json")
    assert (listed.code, "webhooks/github" in listed.out) == (0, False), listed
