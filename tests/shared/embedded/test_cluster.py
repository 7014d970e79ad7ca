"""What a new cluster holds, who may enter it, and which folders are refused."""

import shutil
import stat
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from shared.embedded import EmbeddedPostgres, cluster
from shared.embedded.binaries import Binaries, find_binaries
from shared.embedded.cluster import initdb_words
from shared.embedded.errors import (
    ClusterNotMadeError,
    EmbeddedPostgresError,
    FolderForeignError,
    MajorVersionDiffersError,
    PasswordFileBrokenError,
    PasswordNotReplacedError,
    PostmasterFileBrokenError,
    VersionFileBrokenError,
)
from shared.embedded.folder import DataFolder


def ask(url: str, query: str) -> tuple[object, ...]:
    """The first row of the answer."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return tuple(row)


def test_a_new_folder_becomes_a_database_within_seconds(new_folder: Path) -> None:
    began = time.monotonic()
    with EmbeddedPostgres(new_folder) as database:
        taken_s = time.monotonic() - began
        assert ask(database.url, "SELECT current_database(), current_user") == (
            "fencepost",
            "fencepost_owner",
        )
        assert database.major_version == find_binaries().major_version
    # 0.8 s on an idle machine; the bound leaves room for a busy one.
    assert taken_s < 30


def test_the_owner_owns_the_database_and_is_no_superuser(running: EmbeddedPostgres) -> None:
    assert ask(
        running.url,
        "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls"
        " FROM pg_roles WHERE rolname = current_user",
    ) == (False, True, True, False, False)
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'fencepost'"
    assert ask(running.url, owner) == ("fencepost_owner",)


def test_nobody_can_log_in_as_superuser(running: EmbeddedPostgres) -> None:
    superuser = running.url.replace("fencepost_owner", "postgres")
    with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf rejects"):
        psycopg.connect(superuser)


def test_a_wrong_password_is_refused(running: EmbeddedPostgres) -> None:
    for url in (running.url_without_password, running.url.replace("@", "x@")):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(url, passfile="/nonexistent")


def test_what_safety_rests_on_is_set(running: EmbeddedPostgres) -> None:
    for name, value in {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "listen_addresses": "127.0.0.1",
        "password_encryption": "scram-sha-256",
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
    }.items():
        assert ask(running.url, f"SHOW {name}") == (value,), name
    assert ask(running.url, "SELECT upper('é'), 'Z' < 'a'") == ("É", True)


def test_only_loopback_is_listened_on(running: EmbeddedPostgres) -> None:
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    port = f":{running.port:04X}"
    addresses = {
        line.split()[1]
        for line in listening.splitlines()
        if line.split()[1].endswith(port) and line.split()[3] == "0A"
    }
    assert addresses == {"0100007F" + port}
    assert f".s.PGSQL.{running.port}" not in Path("/proc/net/unix").read_text()


def test_only_scram_is_in_the_host_rules(made_folder: Path) -> None:
    rules = (made_folder / "cluster" / "pg_hba.conf").read_text().splitlines()
    methods = [rule.split()[-1] for rule in rules if rule and not rule.startswith("#")]
    assert methods == ["reject", "scram-sha-256"]


def test_the_password_is_private_and_readable_by_psql(running: EmbeddedPostgres) -> None:
    password_file = running.password_file
    assert stat.S_IMODE(password_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(password_file.parent.stat().st_mode) == 0o700
    with psycopg.connect(running.url_without_password, passfile=str(password_file)) as connection:
        assert connection.info.user == "fencepost_owner"
    password = urlsplit(running.url).password
    assert password is not None
    assert len(password) >= 32
    assert password not in running.log_file.read_text()


def test_each_folder_has_a_password_of_its_own(made_folder: Path, new_folder: Path) -> None:
    with EmbeddedPostgres(new_folder) as database:
        assert database.password_file.read_text() != (made_folder / "pgpass").read_text()


def test_what_was_written_is_there_after_a_restart(database: EmbeddedPostgres) -> None:
    database.start()
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    database.stop()
    database.start()
    assert ask(database.url, "SELECT answer FROM kept") == (42,)


def test_a_lost_password_is_replaced(database: EmbeddedPostgres) -> None:
    database.start()
    before = database.url
    database.stop()
    database.password_file.unlink()
    database.start()
    assert database.url != before
    assert ask(database.url, "SELECT 1") == (1,)
    assert stat.S_IMODE(database.password_file.stat().st_mode) == 0o600


@pytest.mark.parametrize("kept", [0, 10, -2, -1], ids=["empty", "short", "almost", "no end"])
def test_a_password_file_that_was_cut_off_says_how_to_go_on(
    database: EmbeddedPostgres, kept: int
) -> None:
    whole = database.password_file.read_bytes()
    database.password_file.write_bytes(whole[:kept])
    with pytest.raises(PasswordFileBrokenError, match="delete it and start again"):
        database.start()
    assert database.password_file.read_bytes() == whole[:kept]
    database.password_file.unlink()
    database.start()
    assert ask(database.url, "SELECT 1") == (1,)


def test_a_password_that_cannot_be_replaced_is_no_new_database(
    tmp_path: Path, data_folder: Path
) -> None:
    (data_folder / "pgpass").unlink()
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "postgres").write_text("#!/bin/sh\necho the moon is too close; exit 3\n")
    (programs / "postgres").chmod(0o755)
    binaries = Binaries(programs, find_binaries().major_version)
    with pytest.raises(PasswordNotReplacedError, match=r"postgres names .*the moon is too close"):
        EmbeddedPostgres(data_folder, binaries=binaries).start()
    assert not (data_folder / "pgpass").exists()


@pytest.mark.parametrize("password_lost", [False, True])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\n", "\u00b2\n".encode(), b"moon\n"])
def test_a_broken_postmaster_file_is_named(
    database: EmbeddedPostgres, data_folder: Path, content: bytes, password_lost: bool
) -> None:
    postmaster_file = data_folder / "cluster" / "postmaster.pid"
    postmaster_file.write_bytes(content)
    if password_lost:
        database.password_file.unlink()
    with pytest.raises(PostmasterFileBrokenError, match="delete it and start again") as caught:
        database.start()
    assert str(postmaster_file) in str(caught.value)
    postmaster_file.unlink()
    database.start()
    assert ask(database.url, "SELECT 1") == (1,)


def test_what_a_cut_off_first_start_left_is_cleared(data_folder: Path) -> None:
    (data_folder / "cluster").rename(data_folder / "cluster.unfinished")
    (data_folder / "pgpass").rename(data_folder / "pgpass.draft")
    with EmbeddedPostgres(data_folder) as database:
        assert ask(database.url, "SELECT 1") == (1,)
    assert not list(data_folder.glob("*.unfinished"))
    assert not list(data_folder.glob("*.draft"))


def test_a_folder_of_another_major_version_says_how_to_go_on(data_folder: Path) -> None:
    (data_folder / "cluster" / "PG_VERSION").write_text("12\n")
    with pytest.raises(MajorVersionDiffersError) as caught, EmbeddedPostgres(data_folder):
        pass
    sentence = str(caught.value)
    assert "was made by PostgreSQL 12" in sentence
    assert f"are PostgreSQL {find_binaries().major_version}" in sentence
    assert "pg_dump or pg_upgrade" in sentence


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\n", b"moon\n"])
def test_a_broken_version_file_is_named(data_folder: Path, content: bytes) -> None:
    version_file = data_folder / "cluster" / "PG_VERSION"
    version_file.write_bytes(content)
    with pytest.raises(VersionFileBrokenError, match="back from a backup") as caught:
        EmbeddedPostgres(data_folder).start()
    assert str(version_file) in str(caught.value)


@pytest.mark.parametrize(
    ("stray", "reason"),
    [("PG_VERSION", "data directory of another"), ("thesis.txt", "holds files that are not")],
)
def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path, stray: str, reason: str) -> None:
    (tmp_path / stray).write_text("18\n")
    with pytest.raises(FolderForeignError, match=f"{reason}.* choose an empty"):
        EmbeddedPostgres(tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == [stray]


def test_a_cluster_without_a_version_is_left_alone(data_folder: Path) -> None:
    shutil.rmtree(data_folder / "cluster")
    (data_folder / "cluster").mkdir()
    with pytest.raises(FolderForeignError, match="no cluster/PG_VERSION"):
        EmbeddedPostgres(data_folder).start()


@pytest.mark.parametrize(
    ("major_version", "words"),
    [
        (15, {"--locale-provider=libc", "--locale=C.UTF-8"}),
        (16, {"--locale-provider=libc", "--locale=C.UTF-8"}),
        (17, {"--locale-provider=builtin", "--builtin-locale=C.UTF-8"}),
    ],
)
def test_each_version_checks_its_pages_and_older_ones_take_the_locale_of_the_system(
    tmp_path: Path, major_version: int, words: set[str]
) -> None:
    binaries = Binaries(tmp_path, major_version)
    chosen = set(initdb_words(DataFolder(tmp_path), binaries, "C.UTF-8"))
    assert words <= chosen
    # Only from 18 on initdb does this by itself.
    assert "--data-checksums" in chosen


def test_without_the_locale_plain_c_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def finish(program: Path, words: list[str], folder: DataFolder, *, lock: int) -> None:
        tried.append(next(word for word in words if word.startswith("--locale=")))
        if tried[-1] == "--locale=C.UTF-8":
            raise ClusterNotMadeError("initdb", 'invalid locale name "C.UTF-8"')

    monkeypatch.setattr(cluster, "finish", finish)
    cluster.run_initdb(DataFolder(tmp_path), Binaries(tmp_path, 15), lock=0)
    assert tried == ["--locale=C.UTF-8", "--locale=C"]


def test_a_cluster_is_on_disk_before_it_has_its_name(tmp_path: Path, new_folder: Path) -> None:
    real = find_binaries()
    programs, told = tmp_path / "programs", tmp_path / "told"
    programs.mkdir()
    for program in ("initdb", "postgres"):
        (programs / program).write_text(
            f'#!/bin/sh\necho "{program} $*" $(ls {new_folder}) >> {told}\n'
            f'exec {real.folder / program} "$@"\n'
        )
        (programs / program).chmod(0o755)
    with EmbeddedPostgres(new_folder, binaries=Binaries(programs, real.major_version)):
        pass
    made, filled, synced, started = told.read_text().splitlines()
    assert made.startswith("initdb --pgdata=")
    assert filled.startswith("postgres --single")
    assert synced.startswith("initdb --sync-only")
    assert "cluster.unfinished" in synced.split()
    assert "cluster" not in synced.split()
    assert "cluster" in started.split()


def test_what_initdb_says_is_quoted(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "initdb").write_text("#!/bin/sh\necho the moon is too close; exit 3\n")
    (programs / "initdb").chmod(0o755)
    database = EmbeddedPostgres(tmp_path / "data", binaries=Binaries(programs, 18))
    with pytest.raises(EmbeddedPostgresError, match=r"initdb names .*the moon is too close"):
        database.start()
