"""A keys file that lacks a key is continued: nothing of it is lost, nor of anybody else's file."""

import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest

from deploy import secret_files
from services.bootstrap import bootstrap
from services.first_keys import digests, first_keys, read_text
from services.handover import (
    FileHandover,
    OutputExistsError,
    OutputNotOursError,
    VariableTakenError,
)
from shared.credentials import new_credential
from shared.schema.grants import Service

ADDED = "DISPATCHER_API_KEY"


class KilledError(Exception):
    """The process is gone."""


class KilledBeforeCommit(FileHandover):
    """Gets as far as the draft."""

    def prepare(self, text: str, stored: Mapping[str, bytes]) -> None:
        """Writes the draft and dies."""
        super().prepare(text, stored)
        raise KilledError


class KilledAfterCommit(FileHandover):
    """Gets as far as the commit."""

    def finish(self) -> str:
        """Dies."""
        raise KilledError


@pytest.fixture
def watchdog_url(service_url: Callable[[Service], str]) -> str:
    """The database as the watchdog's role, which makes keys."""
    return service_url("watchdog")


@pytest.fixture
def output(owner_url: str, watchdog_url: str, tmp_path: Path) -> Path:
    """The keys file of an installation that began when there was one first key less."""
    path = tmp_path / "keys.env"
    bootstrap(watchdog_url, tenant="t", handover=FileHandover(path))
    lose(owner_url, path, "dispatcher")
    return path


def lose(owner_url: str, path: Path, label: str) -> None:
    """Takes a key out of the database, the file and its drafts; no line break ends them then."""
    with psycopg.connect(owner_url) as connection:
        connection.execute("DELETE FROM fencepost.api_keys WHERE label = %s", [label])
    for file in (path, *drafts(path)):
        lines = file.read_text().splitlines()
        kept = [line for line in lines if not line.startswith(f"{label.upper()}_API_KEY=")]
        file.write_text("\n".join(kept))


def drafts(output: Path) -> list[Path]:
    """Those of the file."""
    return list(output.parent.glob("keys.env.*.draft"))


def stored(owner_url: str) -> dict[str, bytes]:
    """Digests of all keys, by key id."""
    with psycopg.connect(owner_url) as connection:
        return dict(
            connection.execute("SELECT key_id, secret_sha256 FROM fencepost.api_keys").fetchall()
        )


def holds_all_keys(output: Path, owner_url: str, *, before: str) -> None:
    """What stood in the file stands there, the new key follows, and only the owner may read."""
    text = output.read_text()
    assert text.startswith(before)
    assert read_text(text).keys() == {key.variable for key in first_keys("t")}
    assert digests(text) == stored(owner_url)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


@pytest.mark.guarantee("X2")
def test_a_key_that_a_new_version_needs_is_added_to_the_file(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    before = output.read_text()

    outcome = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert outcome.made == ("dispatcher",)
    assert str(output) in outcome.where
    holds_all_keys(output, owner_url, before=before)
    assert list(output.parent.iterdir()) == [output]


def test_a_key_of_a_rotation_in_the_file_is_known_too(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    rotated = new_credential()
    with psycopg.connect(owner_url) as connection:
        connection.execute(
            "INSERT INTO fencepost.api_keys"
            " (key_id, tenant, label, scopes, secret_sha256, created_by)"
            " VALUES (%s, 't', 'worker:t', '{work}', %s, 'of the operator')",
            [rotated.key_id, rotated.secret_sha256],
        )
    replaced = read_text(output.read_text())["WORKER_API_KEY"]
    before = output.read_text().replace(replaced, rotated.text)
    output.write_text(before)

    bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert output.read_text().startswith(before)
    assert ADDED in read_text(output.read_text())


def test_an_added_key_is_handed_out_to_who_calls_with_it(
    watchdog_url: str, tmp_path: Path, output: Path
) -> None:
    for holder in ("operator", "ingress", "dispatcher", "worker"):
        (tmp_path / holder).mkdir()
    for holder in ("operator", "ingress", "worker"):
        (tmp_path / holder / "api_key").write_text("had before")
    keys = output.rename(tmp_path / "operator" / "keys.env")

    bootstrap(watchdog_url, tenant="t", handover=FileHandover(keys))

    assert secret_files.hand_out(tmp_path) == ["dispatcher/api_key"]
    assert (tmp_path / "dispatcher/api_key").read_text() == read_text(keys.read_text())[ADDED]


def test_killed_before_the_commit_the_file_is_as_it_was_and_the_next_run_makes_the_key(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    before = output.read_text()
    with pytest.raises(KilledError):
        bootstrap(watchdog_url, tenant="t", handover=KilledBeforeCommit(output))
    assert output.read_text() == before

    outcome = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert outcome.made == ("dispatcher",)
    holds_all_keys(output, owner_url, before=before)


@pytest.mark.guarantee("X2")
def test_killed_after_the_commit_the_next_run_puts_the_draft_in_place(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    before = output.read_text()
    with pytest.raises(KilledError):
        bootstrap(watchdog_url, tenant="t", handover=KilledBeforeCommit(output))
    with pytest.raises(KilledError):
        bootstrap(watchdog_url, tenant="t", handover=KilledAfterCommit(output))
    assert output.read_text() == before
    (draft,) = (d for d in drafts(output) if digests(d.read_text()) == stored(owner_url))
    assert stat.S_IMODE(draft.stat().st_mode) == 0o600

    outcome = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert outcome.made == ()
    assert str(output) in outcome.where
    holds_all_keys(output, owner_url, before=before)
    assert not draft.exists()


def test_what_a_killed_run_left_comes_before_what_is_missing_now(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    with pytest.raises(KilledError):
        bootstrap(watchdog_url, tenant="t", handover=KilledAfterCommit(output))
    lose(owner_url, output, "ingress")
    before = output.read_text()

    outcome = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert outcome.made == ("ingress",)
    holds_all_keys(output, owner_url, before=before)
    assert drafts(output) == []


def test_another_run_may_finish_what_this_one_is_about_to(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    before = output.read_text()

    class Overtaken(FileHandover):
        """Another run comes between the commit and the name."""

        def finish(self) -> str:
            """Lets it pass."""
            other = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))
            assert other.made == ()
            return super().finish()

    outcome = bootstrap(watchdog_url, tenant="t", handover=Overtaken(output))

    assert outcome.where == f"The credentials are in {output}."
    holds_all_keys(output, owner_url, before=before)
    assert drafts(output) == []


def test_a_file_that_was_written_meanwhile_is_not_replaced(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    class Written(FileHandover):
        """Somebody edits the file between the draft and the name."""

        def finish(self) -> str:
            """Comes after the edit."""
            output.write_text(f"MINE=1\n{output.read_text()}")
            return super().finish()

    outcome = bootstrap(watchdog_url, tenant="t", handover=Written(output))
    bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert output.read_text().startswith("MINE=1\n")
    (draft,) = drafts(output)
    assert str(draft) in outcome.where
    assert digests(draft.read_text()) == stored(owner_url)


@pytest.mark.guarantee("X2")
def test_a_file_with_a_key_of_another_database_is_refused_and_left_as_it_is(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    output.write_text(f"{output.read_text()}\nANOTHER_API_KEY={new_credential().text}\n")
    before = output.read_text(), stored(owner_url)

    with pytest.raises(OutputExistsError, match="exists and is left as it is"):
        bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert (output.read_text(), stored(owner_url)) == before
    assert drafts(output) == []


def test_a_link_is_not_replaced_by_a_file(owner_url: str, watchdog_url: str, output: Path) -> None:
    target = output.rename(output.with_name("elsewhere.env"))
    output.symlink_to(target)
    before = target.read_text(), stored(owner_url)

    with pytest.raises(OutputNotOursError, match="is a link or another user's"):
        bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert output.is_symlink()
    assert (target.read_text(), stored(owner_url)) == before


def test_a_second_tenant_is_told_to_name_another_file(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))
    before = output.read_text(), stored(owner_url)

    with pytest.raises(VariableTakenError, match=r"has a WORKER_API_KEY already.* another file"):
        bootstrap(watchdog_url, tenant="other", handover=FileHandover(output))

    assert (output.read_text(), stored(owner_url)) == before
    assert drafts(output) == []
