"""How new credentials reach a person: a private file or a terminal, never a pipe or a log (K2).

They are handed over *before* the commit that makes them valid, because what is lost after it
cannot be shown again. A file is first a draft beside its place, durable, and gets its name after
the commit. Killed in between, either the keys were not stored, and the draft is worthless; or they
were, and the next run knows the draft by its digests and finishes.
"""

import glob
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TextIO

from services.first_keys import digests

NEITHER_FILE_NOR_TERMINAL = (
    "Credentials would end in a log here, as the output is no terminal: name a file that does not "
    "exist yet with --output FILE, or run this in a terminal."
)


class HandoverRefusedError(Exception):
    """Nothing was stored; the text says what to do."""


class OutputExistsError(HandoverRefusedError):
    """There is a file already, which is never replaced."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists and is left as it is: name another file with --output.")


class Handover(Protocol):
    """Takes credentials from the bootstrap to a person."""

    def prepare(self, text: str) -> None:
        """Hands over before the commit; raises HandoverRefusedError."""

    def finish(self) -> str:
        """Confirms after the commit; returns a sentence that says where the credentials are."""

    def resume(self, stored: Mapping[str, bytes]) -> str:
        """Finishes what an earlier run was killed in; a sentence about it, else nothing.

        `stored` are the digests that the database has, by key id.
        """


class TerminalHandover:
    """Shows credentials on a terminal."""

    def __init__(self, terminal: TextIO) -> None:
        """Raises HandoverRefusedError when it is none."""
        if not terminal.isatty():
            raise HandoverRefusedError(NEITHER_FILE_NOR_TERMINAL)
        self._terminal = terminal

    def prepare(self, text: str) -> None:
        """Shows them."""
        self._terminal.write(f"{text}\nStoring them ...\n")
        self._terminal.flush()

    def finish(self) -> str:
        """Says that they count."""
        return "Stored. They are valid now and are not shown again."

    def resume(self, stored: Mapping[str, bytes]) -> str:  # noqa: ARG002 - nothing was kept
        """A terminal keeps nothing."""
        return ""


class FileHandover:
    """Writes credentials to a file that only its owner may read and that did not exist."""

    def __init__(self, path: Path) -> None:
        """Raises HandoverRefusedError when there is no folder for it."""
        self._path = path.absolute()
        self._draft = self._path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.draft")
        if not self._path.parent.is_dir():
            raise HandoverRefusedError(f"There is no folder {self._path.parent}: make it first.")

    def prepare(self, text: str) -> None:
        """Writes the draft and waits until it is on disk."""
        if os.path.lexists(self._path):
            raise OutputExistsError(self._path)
        try:
            _write_private(self._draft, text)
        except OSError as error:
            self._draft.unlink(missing_ok=True)
            raise HandoverRefusedError(
                f"The credentials cannot be written beside {self._path} ({error.strerror}): "
                "name a file in a folder with room that you may write."
            ) from error

    def finish(self) -> str:
        """Gives the draft its name."""
        return self._name(self._draft)

    def resume(self, stored: Mapping[str, bytes]) -> str:
        """Gives the draft of a killed run its name, if its keys were stored."""
        if os.path.lexists(self._path):
            return ""
        for draft in self._path.parent.glob(f"{glob.escape(self._path.name)}.*.draft"):
            found = _digests_in(draft)
            if found and found.items() <= stored.items():
                return self._name(draft)
        return ""

    def _name(self, draft: Path) -> str:
        try:
            # A link never replaces a file, as a rename would.
            os.link(draft, self._path)
            draft.unlink()
            _sync_folder(self._path.parent)
        except FileNotFoundError:
            # Another run has resumed this one.
            return f"The credentials are in {self._path}."
        except OSError as error:
            return f"The credentials are in {draft} ({self._path}: {error.strerror})."
        return f"The credentials are in {self._path}, which only its owner may read."


def _write_private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digests_in(draft: Path) -> dict[str, bytes]:
    try:
        return digests(draft.read_text())
    except (OSError, UnicodeDecodeError):
        # It is another user's, or has just been named.
        return {}
