"""The cluster in the data folder: made whole or not at all, checked, with one owner in it.

The superuser that initdb makes has no password and pg_hba.conf lets only the owner in, so once
the cluster is made nobody is or needs to be a superuser.
"""

import re
import secrets
import shutil
import subprocess
from pathlib import Path

from shared.embedded.binaries import Binaries
from shared.embedded.errors import (
    ClusterNotMadeError,
    FolderForeignError,
    MajorVersionDiffersError,
    PasswordFileBrokenError,
    PasswordNotReplacedError,
    PostmasterFileBrokenError,
    VersionFileBrokenError,
)
from shared.embedded.folder import (
    DataFolder,
    disk_fault_in,
    disk_faults_named,
    last_lines,
    rename_durably,
    write_private,
)
from shared.embedded.occupants import read_postmaster_file
from shared.embedded.programs import command_line, run

OWNER = "fencepost_owner"
DATABASE = "fencepost"
SUPERUSER = "postgres"
BUILTIN_LOCALES_SINCE_MAJOR = 17
PASSWORD_BELONGS_TO = f"127.0.0.1:*:*:{OWNER}:"

HOST_RULES = f"""\
# Loopback and passwords only; the superuser {SUPERUSER} may not connect at all.
host all {SUPERUSER} all          reject
host all all         127.0.0.1/32 scram-sha-256
"""

CREATE_OWNER = f"CREATE ROLE {OWNER} LOGIN CREATEROLE CREATEDB PASSWORD '{{password}}'\n"
CREATE_DATABASE = f"CREATE DATABASE {DATABASE} OWNER {OWNER}\n"
CHANGE_PASSWORD = f"ALTER ROLE {OWNER} PASSWORD '{{password}}'\n"


def prepare_cluster(folder: DataFolder, binaries: Binaries, *, lock: int) -> str:
    """Makes the cluster if there is none and gives the owner's password.

    Raises MajorVersionDiffersError, FolderForeignError, VersionFileBrokenError,
    PostmasterFileBrokenError, PasswordFileBrokenError, PasswordNotReplacedError,
    ClusterNotMadeError, DiskFullError or FolderNotWritableError.
    """
    with disk_faults_named(folder):
        if not folder.cluster.exists():
            return make_cluster(folder, binaries, lock=lock)
        require_same_major(folder, binaries)
        require_whole_postmaster_file(folder)
        if not folder.password_file.exists():
            return replace_password(folder, binaries, lock=lock)
        return read_password(folder)


def make_cluster(folder: DataFolder, binaries: Binaries, *, lock: int) -> str:
    """Makes the cluster beside its place and renames it when it is whole and on disk.

    Nothing is synced until the one pass at the end: before the rename a power cut costs nothing,
    as the next start begins anew, and that pass is several times cheaper than syncing as we go.
    """
    unfinished = folder.unfinished_cluster
    if unfinished.exists():
        shutil.rmtree(unfinished)
    run_initdb(folder, binaries, lock=lock)
    (unfinished / "pg_hba.conf").write_text(HOST_RULES)
    password = secrets.token_urlsafe(24)
    statements = CREATE_OWNER.format(password=password) + CREATE_DATABASE
    run_single_user(statements, unfinished, folder, binaries, lock=lock, fsync="off")
    finish(binaries.initdb, ["--sync-only", f"--pgdata={unfinished}"], folder, lock=lock)
    write_password(folder, password)
    rename_durably(unfinished, folder.cluster)
    return password


def run_initdb(folder: DataFolder, binaries: Binaries, *, lock: int) -> None:
    """Makes the unfinished cluster; without the C.UTF-8 locale of the system, in plain C."""
    try:
        finish(binaries.initdb, initdb_words(folder, binaries, "C.UTF-8"), folder, lock=lock)
    except ClusterNotMadeError as error:
        if "invalid locale name" not in str(error):
            raise
        finish(binaries.initdb, initdb_words(folder, binaries, "C"), folder, lock=lock)


def initdb_words(folder: DataFolder, binaries: Binaries, locale: str) -> list[str]:
    """UTF-8 with an order of text that no system library can change under an index."""
    if binaries.major_version >= BUILTIN_LOCALES_SINCE_MAJOR:
        locale_words = ["--locale-provider=builtin", f"--builtin-locale={locale}"]
    else:
        locale_words = ["--locale-provider=libc", f"--locale={locale}"]
    return [
        f"--pgdata={folder.unfinished_cluster}",
        f"--username={SUPERUSER}",
        "--auth=reject",
        "--encoding=UTF8",
        *locale_words,
        "--data-checksums",
        "--no-sync",
        "--no-instructions",
    ]


def run_single_user(
    statements: str,
    cluster: Path,
    folder: DataFolder,
    binaries: Binaries,
    *,
    lock: int,
    fsync: str = "on",
) -> None:
    """Runs statements, one a line, as the superuser with no server running.

    A failing one ends it with an error and is not quoted, as it may hold a password.
    """
    settings = {"fsync": fsync, "exit_on_error": "on", "log_min_error_statement": "panic"}
    words = [word for item in settings.items() for word in ("-c", "=".join(item))]
    words = ["--single", "-D", str(cluster), *words, SUPERUSER]
    finish(binaries.postgres, words, folder, lock=lock, said_to_it=statements)


def finish(
    program: Path, words: list[str], folder: DataFolder, *, lock: int, said_to_it: str = ""
) -> None:
    """Runs a program to its end; raises the fault of the disk or ClusterNotMadeError."""
    try:
        ended = run(command_line(program, *words), lock=lock, said_to_it=said_to_it)
    except subprocess.TimeoutExpired as error:
        raise ClusterNotMadeError(program.name, f"it took longer than {error.timeout} s") from error
    if ended.returncode != 0:
        said = ended.stdout
        raise disk_fault_in(said, folder) or ClusterNotMadeError(program.name, last_lines(said))


def require_same_major(folder: DataFolder, binaries: Binaries) -> None:
    """Raises MajorVersionDiffersError, or without a version that could be read:

    FolderForeignError where it has no file, VersionFileBrokenError where it names none.
    """
    version_file = folder.cluster / "PG_VERSION"
    if not version_file.exists():
        raise FolderForeignError(
            folder.path, f"has no {version_file.relative_to(folder.path)} in it"
        )
    made_by = version_file.read_text(errors="replace").strip()
    if not re.fullmatch(r"[0-9.]+", made_by):
        raise VersionFileBrokenError(version_file)
    if made_by != str(binaries.major_version):
        raise MajorVersionDiffersError(
            folder.path,
            made_by=made_by,
            programs=binaries.major_version,
            found_in=binaries.folder,
        )


def require_whole_postmaster_file(folder: DataFolder) -> None:
    """Raises PostmasterFileBrokenError when there is a postmaster.pid that names no process."""
    postmaster_file = folder.cluster / "postmaster.pid"
    if postmaster_file.exists() and read_postmaster_file(folder.cluster) is None:
        raise PostmasterFileBrokenError(postmaster_file)


def replace_password(folder: DataFolder, binaries: Binaries, *, lock: int) -> str:
    """Gives the owner a new password after its file was lost; raises PasswordNotReplacedError."""
    password = secrets.token_urlsafe(24)
    statements = CHANGE_PASSWORD.format(password=password)
    try:
        run_single_user(statements, folder.cluster, folder, binaries, lock=lock)
    except ClusterNotMadeError as error:
        raise PasswordNotReplacedError(error.program, error.said) from error
    write_password(folder, password)
    return password


def write_password(folder: DataFolder, password: str) -> None:
    """Keeps the password as a line that psql reads through PGPASSFILE."""
    write_private(folder.password_file, f"{PASSWORD_BELONGS_TO}{password}\n")


def read_password(folder: DataFolder) -> str:
    """The owner's password; raises PasswordFileBrokenError."""
    said = folder.password_file.read_text(errors="replace")
    # Of a line that was cut off the end is missing.
    line = re.fullmatch(f"{re.escape(PASSWORD_BELONGS_TO)}(.+)\n", said)
    if line is None:
        raise PasswordFileBrokenError(folder.password_file)
    return line[1]
