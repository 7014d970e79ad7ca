"""The suite's files in its data folder: made once, private, and checked when they are read."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.embedded.folder import write_private
from shared.sealing import Keyring, new_key_line

ROLES_KEY_BYTES = 32


class SuiteError(Exception):
    """The suite cannot start, or a part of it has ended; the text says which and why."""


@contextmanager
def file_faults_named(path: Path) -> Iterator[None]:
    """Turns what the system refuses about a file or a folder into SuiteError."""
    try:
        yield
    except (FileExistsError, NotADirectoryError) as fault:
        raise SuiteError(
            f"{fault.filename or path} is a file, or lies below one, where a folder is needed: "
            "move that file away, or choose another data folder."
        ) from fault
    except OSError as fault:
        raise SuiteError(
            f"{fault.filename or path} cannot be made, read or written ({fault.strerror}): make "
            "that possible for the user who runs this, or choose another data folder."
        ) from fault


def make_folder(folder: Path) -> None:
    """Makes it, private, if it is not there; raises SuiteError."""
    with file_faults_named(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def roles_key(file: Path) -> bytes:
    """What the passwords of the services' roles are made from; raises SuiteError."""
    text = _text_once_made(file, secrets.token_hex(ROLES_KEY_BYTES))
    if not re.fullmatch(rf"[0-9a-f]{{{2 * ROLES_KEY_BYTES}}}\s*", text):
        raise SuiteError(
            f"{file} is cut off or broken, and the passwords of the services' roles are made from "
            "it: put the file back from a backup."
        )
    return bytes.fromhex(text)


def sealing_keys(file: Path) -> str:
    """The keyring of a service; raises SuiteError."""
    text = _text_once_made(file, f"{new_key_line()}\n")
    try:
        Keyring.parse(text)
    except ValueError as fault:
        raise SuiteError(
            f"{file} is cut off or broken (it {fault}), and the secrets that are stored open with "
            "its keys alone: put the file back from a backup."
        ) from fault
    return text


def first_keys_text(file: Path) -> str:
    """What the file of the first keys holds, nothing where there is none; raises SuiteError."""
    with file_faults_named(file):
        if not file.exists():
            return ""
        content = file.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        raise SuiteError(
            f"{file} is broken, as it is not UTF-8 text: put the file back from a backup, or move "
            "it away and start again, which tells what to do about its keys."
        ) from fault


def _text_once_made(file: Path, new: str) -> str:
    with file_faults_named(file):
        if not file.exists():
            write_private(file, new)
        # What is no text is refused by the check of what was read.
        return file.read_text(errors="replace")
