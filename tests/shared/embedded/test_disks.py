"""Full disks and folders that cannot be written; disks are small ones in a mount namespace."""

import errno
import os
from pathlib import Path

import pytest

from shared.embedded import EmbeddedPostgres, folder
from shared.embedded.errors import DiskFullError, FolderIsFileError, FolderNotWritableError
from shared.embedded.folder import DataFolder, disk_fault_in, disk_faults_named
from tests.shared.embedded.processes import python

START = """
import sys
from pathlib import Path
from shared.embedded import EmbeddedPostgres, EmbeddedPostgresError
import psycopg

def attempt(folder):
    try:
        with EmbeddedPostgres(Path(folder)) as database:
            psycopg.connect(database.url).close()
            print("started")
    except EmbeddedPostgresError as error:
        print(type(error).__name__, error)
"""

FIRST_START = START + "attempt(sys.argv[1] + '/data')"

FILL_AND_MAKE_ROOM = (
    START
    + """
filler = Path(sys.argv[1], "filler")
with filler.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(65536))
    except OSError:
        pass
attempt(sys.argv[1] + "/data")
filler.unlink()
attempt(sys.argv[1] + "/data")
"""
)


def on_a_disk_of_its_own(mounting: str, script: str, disk: Path, *arguments: str) -> list[str]:
    """What the script prints, run where `mounting` has been done on the folder "$1"."""
    namespace = ["unshare", "--mount", "--propagation=private"]
    if os.geteuid() != 0:
        namespace += ["--user", "--map-root-user"]
    shell = f'set -e; {mounting}; shift "$SHIFT"; exec "$@"'.replace(
        "$SHIFT", str(1 + len(arguments))
    )
    wrapped_in = (*namespace, "sh", "-c", shell, "sh", str(disk), *arguments)
    with python("-c", script, str(disk), wrapped_in=wrapped_in) as process:
        printed, said = process.communicate(timeout=50)
    assert process.returncode == 0, said
    return printed.splitlines()


def test_a_first_start_on_a_full_disk_says_how_much_room_it_needs(tmp_path: Path) -> None:
    mounting = 'mount -t tmpfs -o size=24m tmpfs "$1"'
    (answer,) = on_a_disk_of_its_own(mounting, FIRST_START, tmp_path)
    assert answer.startswith("DiskFullError The disk of the data folder")
    assert "make room there and start again" in answer


def test_a_disk_that_filled_up_is_named_and_room_heals_it(
    tmp_path: Path, made_folder: Path
) -> None:
    mounting = 'mount -t tmpfs -o size=96m tmpfs "$1"; cp -a "$2" "$1/data"'
    full, healed = on_a_disk_of_its_own(mounting, FILL_AND_MAKE_ROOM, tmp_path, str(made_folder))
    assert full.startswith("DiskFullError")
    assert healed == "started"


@pytest.mark.parametrize("read_only", ["", "/data", "/data/cluster"])
def test_a_read_only_folder_is_named(tmp_path: Path, made_folder: Path, read_only: str) -> None:
    mounting = 'cp -a "$2" "$1/data"; mount --bind "$1$3" "$1$3"; mount -o remount,bind,ro "$1$3"'
    answer, *quoted = on_a_disk_of_its_own(
        mounting, FIRST_START, tmp_path, str(made_folder), read_only
    )
    assert answer.startswith("FolderNotWritableError The data folder")
    assert "Read-only file system" in answer
    assert "choose another data folder" in "\n".join([answer, *quoted])


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FolderIsFileError, match="is a file, or lies below one") as caught:
            EmbeddedPostgres(path).start()
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("said", "named"), [("LOG:  starting", DiskFullError), ("FATAL:  bad setting", type(None))]
)
def test_a_log_that_a_full_disk_swallowed_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, named: type[object]
) -> None:
    monkeypatch.setattr(folder, "FULL_BELOW_BYTES", 2**62)
    assert type(disk_fault_in(said, DataFolder(tmp_path))) is named


@pytest.mark.parametrize(
    ("number", "named"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EACCES, FolderNotWritableError),
        (errno.EROFS, FolderNotWritableError),
    ],
)
def test_faults_of_our_own_files_are_named(
    tmp_path: Path, number: int, named: type[Exception]
) -> None:
    with pytest.raises(named), disk_faults_named(DataFolder(tmp_path)):
        raise OSError(number, os.strerror(number), "some/file")


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("FATAL:  could not write: No space left on device", DiskFullError),
        ("PANIC:  could not write: Disk quota exceeded", DiskFullError),
        ("FATAL:  could not open: Read-only file system", FolderNotWritableError),
        ("FATAL:  could not open: Permission denied", FolderNotWritableError),
        ("FATAL:  something else", type(None)),
    ],
)
def test_faults_in_what_postgresql_says_are_named(
    tmp_path: Path, said: str, named: type[object]
) -> None:
    assert type(disk_fault_in(said, DataFolder(tmp_path))) is named
