"""The first keys: made once, handed over privately, never lost and never without a row."""

import os
import pty
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest
from fencepost.common.v1 import access_pb2

from services.bootstrap import BootstrapRefusedError, bootstrap
from services.first_keys import ALL_SCOPES, as_text, digests, first_keys, read_text
from services.handover import FileHandover, HandoverRefusedError, TerminalHandover
from shared.credentials import new_credential, parse, secret_digest
from shared.schema.grants import Service
from tests.database_server import url_of
from tests.waiting import until_sync

VARIABLES = ["OPERATOR_API_KEY", "INGRESS_API_KEY", "DISPATCHER_API_KEY", "WORKER_API_KEY"]


@pytest.fixture
def watchdog_url(service_url: Callable[[Service], str]) -> str:
    """The database as the watchdog's role, which makes keys."""
    return service_url("watchdog")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where credentials shall go."""
    return tmp_path / "keys.env"


def rows(owner_url: str) -> list[tuple[object, ...]]:
    """Keys as stored."""
    with psycopg.connect(owner_url) as connection:
        return connection.execute(
            "SELECT label, tenant, scopes, key_id, secret_sha256 FROM fencepost.api_keys"
            " WHERE created_by = 'bootstrap' ORDER BY created_at"
        ).fetchall()


def run(url: str, *arguments: str, tty: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command as people run it."""
    return subprocess.run(
        [sys.executable, "-m", "services", "bootstrap", *arguments],
        env={"WATCHDOG_DATABASE_URL": url} if url else {},
        stdout=subprocess.PIPE if tty is None else tty,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_the_scopes_of_the_operator_are_all_that_a_key_can_carry() -> None:
    names = {
        name.removeprefix("SCOPE_").lower() for name in access_pb2.Scope.DESCRIPTOR.values_by_name
    }
    assert set(ALL_SCOPES) == names - {"unspecified", "any"}
    assert all(set(key.scopes) <= set(ALL_SCOPES) for key in first_keys("default"))


@pytest.mark.guarantee("X2")
def test_the_first_keys_are_made_and_their_rows_hold_digests(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    outcome = bootstrap(watchdog_url, tenant="acme", handover=FileHandover(output))

    assert outcome.made == ("operator", "ingress", "dispatcher", "worker:acme")
    assert outcome.present == ()
    credentials = read_text(output.read_text())
    assert list(credentials) == VARIABLES
    stored = rows(owner_url)
    assert [row[:3] for row in stored] == [
        ("operator", None, list(ALL_SCOPES)),
        ("ingress", None, ["wake"]),
        ("dispatcher", None, ["heads_read"]),
        ("worker:acme", "acme", ["work", "publish"]),
    ]
    parts = [parse(credential) for credential in credentials.values()]
    assert [row[3:] for row in stored] == [(p[0], secret_digest(p[1])) for p in parts if p]


def test_making_a_key_is_audited(owner_url: str, watchdog_url: str, output: Path) -> None:
    bootstrap(watchdog_url, tenant="acme", handover=FileHandover(output))

    with psycopg.connect(owner_url) as connection:
        entries = connection.execute(
            "SELECT tenant, key_id, action, detail->>'label' FROM fencepost.audit_entries"
            " ORDER BY entry_id"
        ).fetchall()
    assert entries == [
        ("*", "bootstrap", "bootstrap_key", "operator"),
        ("*", "bootstrap", "bootstrap_key", "ingress"),
        ("*", "bootstrap", "bootstrap_key", "dispatcher"),
        ("acme", "bootstrap", "bootstrap_key", "worker:acme"),
    ]


def test_the_file_is_its_owners_alone(watchdog_url: str, output: Path) -> None:
    done = run(watchdog_url, "--output", str(output))

    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert list(output.parent.iterdir()) == [output]
    assert "fp_" not in done.stdout + done.stderr
    assert str(output) in done.stdout


def test_a_second_run_says_which_keys_exist_and_how_to_rotate(
    owner_url: str, watchdog_url: str, output: Path, tmp_path: Path
) -> None:
    bootstrap(watchdog_url, tenant="default", handover=FileHandover(output))
    before = rows(owner_url), output.read_text()

    for again in (output, tmp_path / "another.env"):
        done = run(watchdog_url, "--output", str(again))
        assert done.returncode == 0, done.stderr
        assert "fencepost keys rotate" in done.stdout
        for row in before[0]:
            assert f"{row[0]}: key id {row[3]}" in done.stdout

    assert (rows(owner_url), output.read_text()) == before
    assert not (tmp_path / "another.env").exists()


def test_a_further_tenant_gets_a_worker_key_and_nothing_else(
    watchdog_url: str, output: Path, tmp_path: Path
) -> None:
    bootstrap(watchdog_url, tenant="default", handover=FileHandover(output))

    further = tmp_path / "acme.env"
    outcome = bootstrap(watchdog_url, tenant="acme", handover=FileHandover(further))

    assert outcome.made == ("worker:acme",)
    assert [key.label for key in outcome.present] == [
        "operator",
        "ingress",
        "dispatcher",
        "worker:default",
    ]
    assert list(read_text(further.read_text())) == ["WORKER_API_KEY"]


def test_credentials_are_refused_to_a_pipe_before_the_database_is_asked(owner_url: str) -> None:
    done = run("postgresql://nobody@127.0.0.1:1/none")

    assert done.returncode == 1
    assert "would end in a log" in done.stderr
    assert done.stdout == ""


def test_a_terminal_is_shown_the_credentials(owner_url: str, watchdog_url: str) -> None:
    ours, theirs = pty.openpty()
    try:
        done = run(watchdog_url, tty=theirs)
        shown = os.read(ours, 100_000).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        os.close(theirs)

    assert done.returncode == 0, done.stderr
    assert list(read_text(shown)) == VARIABLES
    assert set(digests(shown).items()) == {row[3:] for row in rows(owner_url)}
    assert shown.index("fp_") < shown.index("valid now")


def test_a_file_that_exists_is_never_replaced_and_no_key_is_made(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    output.write_text("mine")

    with pytest.raises(HandoverRefusedError, match="exists and is left as it is"):
        bootstrap(watchdog_url, tenant="default", handover=FileHandover(output))

    assert rows(owner_url) == []
    assert output.read_text() == "mine"


def test_a_folder_that_is_not_there_or_not_a_folder_makes_no_key(
    owner_url: str, watchdog_url: str, tmp_path: Path
) -> None:
    with pytest.raises(HandoverRefusedError, match="There is no folder"):
        FileHandover(tmp_path / "none" / "keys.env")
    with pytest.raises(HandoverRefusedError, match="cannot be written"):
        bootstrap(watchdog_url, tenant="default", handover=FileHandover(Path("/proc/keys.env")))
    assert rows(owner_url) == []


def test_killed_after_the_draft_the_next_run_makes_keys_anew(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    killed = as_text([(key, new_credential()) for key in first_keys("t")])
    FileHandover(output).prepare(killed, {})

    outcome = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert len(outcome.made) == len(VARIABLES)
    assert set(digests(output.read_text()).items()) == {row[3:] for row in rows(owner_url)}


def test_killed_after_the_commit_the_next_run_finishes(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    class KilledError(Exception):
        """The process is gone."""

    class CutOff(FileHandover):
        """Never gets to the name."""

        def finish(self) -> str:
            """Dies."""
            raise KilledError

    with pytest.raises(KilledError):
        bootstrap(watchdog_url, tenant="t", handover=CutOff(output))
    assert not output.exists()
    stray = output.with_name("keys.env.0-stray.draft")
    stray.write_text(as_text([(first_keys("t")[0], new_credential())]))

    outcome = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))

    assert outcome.made == ()
    assert str(output) in outcome.where
    assert set(digests(output.read_text()).items()) == {row[3:] for row in rows(owner_url)}
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


def test_a_commit_whose_answer_is_lost_keeps_the_draft(
    owner_url: str, watchdog_url: str, output: Path
) -> None:
    class Severed(FileHandover):
        """The connection is ended when everything but the commit is done."""

        def prepare(self, text: str, stored: Mapping[str, bytes]) -> None:
            """Writes, then ends the session of the bootstrap."""
            super().prepare(text, stored)
            with psycopg.connect(watchdog_url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database()"
                    " AND application_name = 'fencepost bootstrap'"
                )
                until_sync(lambda: not sessions(owner_url), what="the session to be gone")

    with pytest.raises(BootstrapRefusedError, match="not known whether the keys count"):
        bootstrap(watchdog_url, tenant="t", handover=Severed(output))

    assert len(list(output.parent.glob("keys.env.*.draft"))) == 1
    outcome = bootstrap(watchdog_url, tenant="t", handover=FileHandover(output))
    assert len(outcome.made) == len(VARIABLES)
    assert set(digests(output.read_text()).items()) == {row[3:] for row in rows(owner_url)}


def sessions(owner_url: str) -> int:
    """Bootstraps that are connected."""
    with psycopg.connect(owner_url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'fencepost bootstrap'"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize("service", ["ingress", "dispatcher", "publisher"])
def test_no_other_role_makes_keys(
    owner_url: str, service_url: Callable[[Service], str], service: Service, output: Path
) -> None:
    with pytest.raises(BootstrapRefusedError, match="permission denied"):
        bootstrap(service_url(service), tenant="t", handover=FileHandover(output))
    assert rows(owner_url) == []
    assert list(output.parent.iterdir()) == []


def test_what_is_missing_is_said_in_a_sentence(watchdog_url: str, output: Path) -> None:
    unreachable = "postgresql://fencepost_watchdog:x@127.0.0.1:1/fencepost"
    with pytest.raises(BootstrapRefusedError, match="cannot be reached"):
        bootstrap(unreachable, tenant="t", handover=FileHandover(output))
    unmigrated = url_of(watchdog_url, dbname="postgres")
    with pytest.raises(BootstrapRefusedError, match="python -m services migrate"):
        bootstrap(unmigrated, tenant="t", handover=FileHandover(output))
    done = run("", "--output", str(output))
    assert done.returncode == 2
    assert "WATCHDOG_DATABASE_URL or WATCHDOG_DATABASE_URL_FILE must be set" in done.stderr


def test_a_tenant_that_is_no_name_is_refused(watchdog_url: str, output: Path) -> None:
    done = run(watchdog_url, "--output", str(output), "--tenant", "a b")

    assert done.returncode == 2
    assert "letters, digits" in done.stderr


def test_a_terminal_handover_takes_terminals_only(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(HandoverRefusedError):
        TerminalHandover(file)
