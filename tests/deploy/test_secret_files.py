"""Secrets are made once, each for its one holder, and nothing of them is said."""

import io
import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deploy import secret_files
from services.first_keys import as_text, first_keys
from services.surroundings import SEALING
from shared.credentials import new_credential
from shared.schema.grants import SERVICES, role_of
from shared.sealing import Keyring

HOLDERS = ("database", "owner", *SERVICES, "operator", "worker")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The volumes, empty."""
    for holder in HOLDERS:
        (tmp_path / holder).mkdir()
    return tmp_path


def contents(root: Path) -> dict[str, str]:
    return {str(f.relative_to(root)): f.read_text() for f in root.rglob("*") if f.is_file()}


def test_all_are_made_once_and_differ(root: Path) -> None:
    made = secret_files.make(root)
    first = contents(root)
    assert set(made) == set(first)
    assert len(set(first.values())) == len(first)
    assert secret_files.make(root) == []
    assert contents(root) == first


def test_each_service_gets_its_own_role_and_password(root: Path) -> None:
    secret_files.make(root)
    urls = {s: urlsplit((root / f"{s}/database_url").read_text()) for s in SERVICES}
    assert {s: url.username for s, url in urls.items()} == {s: role_of(s) for s in SERVICES}
    assert len({url.password for url in urls.values()}) == len(SERVICES)
    owner = urlsplit((root / "owner/database_url").read_text())
    assert owner.password == (root / "database/owner_password").read_text()


@pytest.mark.guarantee("K1")
def test_who_stores_secrets_has_sealing_keys_of_its_own(root: Path) -> None:
    secret_files.make(root)
    ids = [Keyring.parse((root / f"{s}/sealing_keys").read_text()).active_id for s in SEALING]
    assert len(set(ids)) == len(SEALING)


def test_what_is_lost_is_made_again_and_the_rest_kept(root: Path) -> None:
    secret_files.make(root)
    before = contents(root)
    (root / "owner/database_url").unlink()
    (root / "operator/webhook_secret").unlink()
    assert secret_files.make(root) == ["owner/database_url", "operator/webhook_secret"]
    after = contents(root)
    assert after.pop("operator/webhook_secret") != before.pop("operator/webhook_secret")
    assert after == before


def test_only_the_holder_reads_and_nobody_writes(root: Path) -> None:
    secret_files.make(root)
    modes = {
        str(f.relative_to(root)): stat.S_IMODE(f.stat().st_mode)
        for f in root.rglob("*")
        if f.is_file()
    }
    others = {name for name in modes if name.startswith("database/")}
    assert {modes[name] for name in others} == {0o444}
    assert {mode for name, mode in modes.items() if name not in others} == {0o400}


def test_the_first_keys_go_to_who_calls_with_them(root: Path) -> None:
    made = {key.variable: (key, new_credential()) for key in first_keys("default")}
    (root / "operator/keys.env").write_text(as_text(list(made.values())))
    given = secret_files.hand_out(root)
    assert given == [
        f"{holder}/api_key" for holder in ("operator", "ingress", "dispatcher", "worker")
    ]
    for holder, variable in secret_files.KEYS.items():
        assert (root / f"{holder}/api_key").read_text() == made[variable][1].text
    assert secret_files.hand_out(root) == []


def test_a_key_that_was_replaced_stays(root: Path) -> None:
    made = [(key, new_credential()) for key in first_keys("default")]
    (root / "operator/keys.env").write_text(as_text(made))
    secret_files.write(root, "ingress/api_key", "of a rotation")
    assert "ingress/api_key" not in secret_files.hand_out(root)
    assert (root / "ingress/api_key").read_text() == "of a rotation"


def run(monkeypatch: pytest.MonkeyPatch, root: Path, said: str, *words: str) -> int:
    monkeypatch.setattr(secret_files, "ROOT", root)
    monkeypatch.setattr("sys.argv", ["secret_files", *words])
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    return secret_files.main()


def test_one_of_yours_replaces_what_was_there(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for token in ("first", "second"):
        assert run(monkeypatch, root, f"{token}\n", "set", "publisher/forge_token") == 0
        assert (root / "publisher/forge_token").read_text() == token
    assert capsys.readouterr().out == "Stored: publisher/forge_token.\n" * 2


@pytest.mark.parametrize("name", ["nobody/token", "../etc/passwd", "publisher/../x", "publisher"])
def test_a_place_that_is_none_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, root, "token", "set", name)
    assert contents(root) == {}


def test_nothing_is_no_secret(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="one secret"):
        run(monkeypatch, root, "\n", "set", "publisher/forge_token")


def test_what_is_said_tells_no_secret(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, root, "", "make")
    said = capsys.readouterr().out
    assert "ingress/sealing_keys" in said
    assert not [secret for secret in contents(root).values() if secret in said]
