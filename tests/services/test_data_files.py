"""Broken files in the suite's data folder are named, and left as they are."""

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from services.data_files import (
    SuiteError,
    file_faults_named,
    first_keys_text,
    make_folder,
    roles_key,
    sealing_keys,
)
from services.processes import start_service
from services.suite import Suite

ReadFile = Callable[[Path], object]


@pytest.mark.parametrize("read", [roles_key, sealing_keys])
def test_a_file_is_made_once_and_is_private(tmp_path: Path, read: ReadFile) -> None:
    file = tmp_path / "file"

    made = read(file)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read(file) == made


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (roles_key, b""),
        (roles_key, b"0123456789abcdef0123"),
        (roles_key, b"moon" * 16),
        (roles_key, b"\xff\xfe"),
        (sealing_keys, b""),
        (sealing_keys, b"\n"),
        (sealing_keys, b"k1:" + b"A" * 36),
        (sealing_keys, b"\xff\xfe"),
        (sealing_keys, b"k1:\xff\xfe"),
        (first_keys_text, b"OPERATOR_API_KEY=\xff\xfe"),
    ],
)
def test_a_broken_file_is_to_be_put_back_and_stays(
    tmp_path: Path, read: ReadFile, content: bytes
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    with pytest.raises(SuiteError, match="put the file back from a backup") as refused:
        read(file)

    assert str(file) in str(refused.value)
    assert file.read_bytes() == content


def test_broken_sealing_keys_are_in_nobodys_way_where_others_are_set(tmp_path: Path) -> None:
    (tmp_path / "publisher-sealing.keys").touch()
    suite = Suite(tmp_path, environment={"PUBLISHER_SEALING_KEYS_FILE": "/sealing.keys"})

    assert suite._sealing_keys("publisher") is None


@pytest.mark.parametrize("read", [roles_key, sealing_keys, first_keys_text])
def test_a_folder_where_a_file_is_read_is_named(tmp_path: Path, read: ReadFile) -> None:
    with pytest.raises(SuiteError, match=re.escape(f"{tmp_path} cannot be made, read or written")):
        read(tmp_path)


def test_logs_that_are_a_file_are_named(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.touch()

    with pytest.raises(SuiteError, match=f"{re.escape(str(logs))} is a file, or lies below one"):
        start_service("ingress", {}, admin_address="127.0.0.1:1", log_file=logs / "ingress.log")


def test_a_log_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="choose another data folder"):
        start_service("ingress", {}, admin_address="127.0.0.1:1", log_file=tmp_path)


def test_a_folder_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        with pytest.raises(SuiteError, match="move that file away, or choose another data folder"):
            make_folder(folder)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_what_the_system_refuses_is_quoted(number: int) -> None:
    with (
        pytest.raises(SuiteError, match=f"^/x/y cannot be .*{os.strerror(number)}.*another data"),
        file_faults_named(Path("/x/y")),
    ):
        raise OSError(number, os.strerror(number))
