"""Root, ordinary users and users without an account; needs root to become them."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from shared.embedded import EmbeddedPostgres, programs
from shared.embedded.errors import FolderNotWritableError, UserNamespaceRefusedError
from shared.embedded.programs import NOBODY_USER_ID, require_namespace, shown_user_id
from tests.shared.embedded.processes import (
    REPOSITORY,
    cluster_state,
    first_line,
    packages_folder,
    postmaster_in,
    until_empty,
)

NO_ACCOUNT_USER_ID = 54321
as_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

BECOME = """
set -e
mount --bind "$1" "$5/repository"
mount --bind "$2" "$5/packages"
mount --bind "$3" "$5/python"
cd "$5/repository"
export PYTHONPATH="$5/repository:$5/packages" LD_LIBRARY_PATH="$5/python/lib"
exec setpriv --reuid "$4" --regid "$4" --clear-groups \\
    "$5/python/bin/python3" -B -m shared.embedded --data-folder "$5/home/data"
"""
"""Brings the code to where everybody can read it, as it may lie below a private folder."""


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are private."""
    public = Path(tempfile.mkdtemp())
    public.chmod(0o755)
    for name in ("repository", "packages", "python", "home"):
        (public / name).mkdir()
    yield public
    shutil.rmtree(public)


def user_ids_of(process_id: int) -> set[str]:
    """The real, effective, saved and file-system user of a process, as seen from here."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return set(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:])


@as_root_only
@pytest.mark.parametrize("user_id", [NOBODY_USER_ID, NO_ACCOUNT_USER_ID])
def test_an_ordinary_user_runs_it_and_it_stops_with_its_parent(
    public_folder: Path, user_id: int
) -> None:
    os.chown(public_folder / "home", user_id, user_id)
    data_folder = public_folder / "home" / "data"
    shown_to_shell = [REPOSITORY, packages_folder(), sys.base_prefix, user_id, public_folder]
    with subprocess.Popen(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", BECOME, "sh"]
        + [str(word) for word in shown_to_shell],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        url = first_line(parent)
        with psycopg.connect(url, passfile=str(data_folder / "pgpass")) as connection:
            connection.execute("SELECT 1")
        assert user_ids_of(postmaster_in(data_folder)) == {str(user_id)}
        parent.send_signal(signal.SIGKILL)
    until_empty(data_folder)
    assert cluster_state(data_folder) == "shut down"


@as_root_only
def test_root_runs_it_without_powers_and_keeps_its_files(database: EmbeddedPostgres) -> None:
    database.start()
    assert database.process_id is not None
    assert user_ids_of(database.process_id) == {"0"}
    namespaces = [os.readlink(f"/proc/{id_}/ns/user") for id_ in (database.process_id, os.getpid())]
    assert namespaces[0] != namespaces[1]
    owners = {path.stat().st_uid for path in database.log_file.parent.rglob("*")}
    assert owners == {0}


@as_root_only
def test_a_folder_of_another_user_is_named(tmp_path: Path) -> None:
    os.chown(tmp_path, NOBODY_USER_ID, NOBODY_USER_ID)
    with pytest.raises(FolderNotWritableError, match="who must own it"):
        EmbeddedPostgres(tmp_path).start()


@pytest.mark.parametrize("user_id", [0, NO_ACCOUNT_USER_ID])
def test_a_refused_namespace_says_what_to_do(user_id: int) -> None:
    refusing = ["sh", "-c", "echo unshare failed: Operation not permitted >&2; exit 1"]
    with pytest.raises(UserNamespaceRefusedError) as caught:
        require_namespace(refusing, user_id)
    sentence = str(caught.value)
    assert "root" in sentence or f"user id {user_id}" in sentence
    assert "Operation not permitted" in sentence
    assert "run this as an ordinary user" in sentence
    assert "DATABASE_URL" in sentence


def test_a_missing_unshare_is_named() -> None:
    with pytest.raises(UserNamespaceRefusedError, match="unshare is missing"):
        require_namespace(["/nonexistent/unshare"], 0)


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        ({0, 1, 2, 65534}, 1),
        ({0, 65534}, 65534),
        ({0}, 65534),
    ],
)
def test_the_namespace_shows_an_account_that_exists(known: set[int], shown: int) -> None:
    assert shown_user_id(frozenset(known)) == shown


def test_no_secret_of_ours_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c fsync=off")
    monkeypatch.setenv("FENCEPOST_TOKEN", "secret")
    assert set(programs.environment()) <= {"PATH", "LD_LIBRARY_PATH", "LC_ALL", "TZ"}
