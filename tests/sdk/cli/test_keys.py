"""Keys from the command line: a credential goes to one chosen place and nowhere else (K2)."""

import json
import re
import stat

import pytest
import typer
from fencepost.cli.keys import seconds

from tests.rows import Rows
from tests.sdk.cli.terminal import Shell
from tests.services.watchdog.made import stored_key

CREDENTIAL = re.compile(r"fp_[a-z0-9]+_[A-Za-z0-9]{43}")
CREATE = ("keys", "create", "--label", "worker", "--scope", "work", "--scope", "publish")


@pytest.fixture
async def tenant(rows: Rows) -> str:
    """A tenant that no other test has."""
    return f"keys-{next(rows.numbers)}"


@pytest.mark.parametrize(
    ("text", "length"), [("0s", 0), ("45s", 45), ("30m", 1800), ("12h", 43_200), ("90d", 7_776_000)]
)
def test_a_length_has_a_unit(text: str, length: int) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1 d", "1w", "1.5h", "9999999999s"])
def test_a_length_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="90d, 12h, 30m or 45s"):
        seconds(text)


async def test_without_a_terminal_or_a_place_no_key_is_made(
    shell: Shell, rows: Rows, tenant: str
) -> None:
    _, old = await stored_key(rows, tenant, scopes=["work"])
    for command in (CREATE, (*CREATE, "--json"), ("keys", "rotate", old["key_id"])):
        told = shell.run(*command, "--tenant", tenant)
        assert told.code == 2
        assert "no key was made. Name a file with --output FILE, or say --show" in told.err
    told = shell.run(*CREATE, "--tenant", tenant, "--show", "--output", "key")
    assert told.code == 2
    assert "keep one of them" in told.err
    assert await rows.all("api_keys", tenant=tenant) == [old]


async def test_a_credential_in_a_file_is_private_and_works(
    shell: Shell, rows: Rows, tenant: str
) -> None:
    file = shell.folder / "key"
    told = shell.run(
        *CREATE, "--scope", "status_read", "--valid-for", "90d", "--tenant", tenant,
        "--output", "key",
    )  # fmt: skip
    assert told.code == 0, told
    [key] = await rows.all("api_keys", tenant=tenant)
    assert told.out.startswith(f"Key {key['key_id']} (worker) was made: of tenant {tenant}, until")
    assert told.out.endswith("Its credential is in key, which only you may read.\n")
    assert not CREDENTIAL.search(told.out + told.err)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert CREDENTIAL.fullmatch(file.read_text().strip())
    assert shell.having(FENCEPOST_API_KEY="").run("status", "--key-file", "key").code == 0


async def test_a_file_that_exists_is_left_as_it_is_and_no_key_is_made(
    shell: Shell, rows: Rows, tenant: str
) -> None:
    (shell.folder / "key").write_text("precious")
    for place in ("key", "no/such/folder"):
        told = shell.run(*CREATE, "--tenant", tenant, "--output", place)
        assert told.code == 2
        assert "no key was made" in told.err
    assert (shell.folder / "key").read_text() == "precious"
    assert await rows.all("api_keys", tenant=tenant) == []


async def test_a_refused_key_leaves_no_file(shell: Shell, rows: Rows, tenant: str) -> None:
    credential, _ = await stored_key(rows, tenant, scopes=["keys_admin"])
    told = shell.having(FENCEPOST_API_KEY=credential.text).run(*CREATE, "--output", "key")
    assert told.code == 1
    assert told.err.startswith("SCOPE_MISSING: Your key lacks the scope publish")
    assert not (shell.folder / "key").exists()
    told = shell.having(FENCEPOST_WATCHDOG="127.0.0.1:9").run(*CREATE, "--output", "key")
    assert told.code == 3
    assert re.search(r"To learn whether a key was made, repeat with --request-id \S+\n", told.err)
    assert not (shell.folder / "key").exists()


def test_a_label_that_is_no_text_leaves_no_file(shell: Shell) -> None:
    told = shell.run("keys", "create", "--label", "\udcff", "--scope", "work", "--output", "key")
    assert (told.code, "is no text (UTF-8)" in told.err) == (2, True), told
    assert not (shell.folder / "key").exists()


def test_with_show_the_credential_stands_alone_on_standard_output(
    shell: Shell, tenant: str
) -> None:
    told = shell.run(*CREATE, "--tenant", tenant, "--show")
    assert told.code == 0
    assert CREDENTIAL.fullmatch(told.out.strip())
    assert "was made: of tenant" in told.err
    assert not CREDENTIAL.search(told.err)
    shown = json.loads(shell.run(*CREATE, "--tenant", tenant, "--show", "--json").out)
    assert CREDENTIAL.fullmatch(shown["credential"])
    assert shown["credential_file"] is None
    assert shown["key"]["scopes"] == ["work", "publish"]
    written = json.loads(shell.run(*CREATE, "--tenant", tenant, "--output", "key", "--json").out)
    assert (written["credential"], written["credential_file"]) == (None, "key")


def test_in_a_terminal_the_credential_is_shown_once(shell: Shell, tenant: str) -> None:
    told = shell.run_in_terminal(*CREATE, "--tenant", tenant)
    assert told.code == 0
    assert len(CREDENTIAL.findall(told.out)) == 1
    assert "Its credential is shown once:" in told.out


async def test_a_repeated_request_names_the_key_to_revoke(
    shell: Shell, rows: Rows, tenant: str
) -> None:
    asked = (*CREATE, "--tenant", tenant, "--request-id", "r-1", "--show")
    assert shell.run(*asked).code == 0
    [key] = await rows.all("api_keys", tenant=tenant)
    told = shell.run(*asked)
    assert told.code == 1
    assert told.err.startswith("REQUEST_ID_REUSED: ")
    assert f"revoke key {key['key_id']} and create another" in told.err


async def test_a_key_is_rotated_revoked_and_listed(shell: Shell, rows: Rows, tenant: str) -> None:
    named = ("--tenant", tenant)
    first = json.loads(shell.run(*CREATE, *named, "--show", "--json").out)["key"]
    told = shell.run(
        "keys", "rotate", first["key_id"], "--overlap", "30m", *named, "--show", "--json"
    )
    second = json.loads(told.out)["key"]
    assert second["rotated_from"] == first["key_id"]
    revoked = shell.run("keys", "revoke", second["key_id"], *named)
    assert revoked.code == 0
    assert revoked.out.startswith(f"Key {second['key_id']} (worker) ended at ")
    listed = json.loads(shell.run("keys", "list", *named, "--json").out)["keys"]
    assert [key["key_id"] for key in listed] == [second["key_id"], first["key_id"]]
    assert list(listed[0]) == [
        "key_id",
        "tenant",
        "label",
        "scopes",
        "created_at",
        "ends_at",
        "rotated_from",
    ]
    assert first["ends_at"] is None
    assert all(key["ends_at"] for key in listed)
    shown = shell.run_in_terminal("keys", "list", *named).out
    assert shown.splitlines()[0].split() == [
        "key",
        "id",
        "tenant",
        "label",
        "scopes",
        "made",
        "ends",
    ]
    assert first["key_id"] in shown
    stored = await rows.all("api_keys", tenant=tenant)
    for key in stored:
        assert key["secret_sha256"].hex() not in shown


def test_a_key_that_is_not_there_is_told_so(shell: Shell) -> None:
    told = shell.run("keys", "revoke", "nothing1", "--json")
    assert told.code == 1
    assert json.loads(told.out)["error"]["reason"] == "RESOURCE_NOT_FOUND"


def test_a_scope_that_does_not_exist_is_wrong_usage(shell: Shell) -> None:
    told = shell.run("keys", "create", "--label", "x", "--scope", "sing", "--show")
    assert told.code == 2
    assert "keys_admin" in told.err
