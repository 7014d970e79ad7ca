"""How new credentials reach a person: a private file or a terminal, never a pipe or a log (K2).

They are handed over *before* the commit that makes them valid, because what is lost after it
cannot be shown again. A file is first a draft beside its place, durable, and gets its name after
the commit. Killed in between, either the keys were not stored, and the draft is worthless; or they
were, and the next run knows the draft by its digests and finishes.

A file of the same database that lacks a key, as a new version may need one more, is continued: the
draft is its text and the new key's, and takes its place.
"""

import glob
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, TextIO

from services.first_keys import digests, read_text

NEITHER_FILE_NOR_TERMINAL = (
    "Credentials would end in a log here, as the output is no terminal: name a file that does not "
    "exist yet with --output FILE, or run this in a terminal."
)


class HandoverRefusedError(Exception):
    """Nothing was stored; the text says what to do."""


class OutputExistsError(HandoverRefusedError):
    """The file holds something else than keys of this database."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists and is left as it is: name another file with --output.")


class OutputNotOursError(HandoverRefusedError):
    """A draft in its place would take the file from those who use it."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is a link or another user's and is left as it is: run this as the user whose "
            "file it is, or name another file with --output."
        )


class VariableTakenError(HandoverRefusedError):
    """The file has a key under the same variable, as that of another tenant's bots."""

    def __init__(self, path: Path, variables: Iterable[str]) -> None:
        super().__init__(
            f"{path} has a {' and a '.join(sorted(variables))} already, which stays: name another "
            "file with --output."
        )


class Handover(Protocol):
    """Takes credentials from the bootstrap to a person.

    `stored` are the digests of the keys that the database has, by key id.
    """

    def prepare(self, text: str, stored: Mapping[str, bytes]) -> None:
        """Hands over before the commit; raises HandoverRefusedError."""

    def finish(self) -> str:
        """Confirms after the commit; returns a sentence that says where the credentials are."""

    def resume(self, stored: Mapping[str, bytes]) -> str:
        """Finishes what an earlier run was killed in; a sentence about it, else nothing."""


class TerminalHandover:
    """Shows credentials on a terminal."""

    def __init__(self, terminal: TextIO) -> None:
        """Raises HandoverRefusedError when it is none."""
        if not terminal.isatty():
            raise HandoverRefusedError(NEITHER_FILE_NOR_TERMINAL)
        self._terminal = terminal

    def prepare(self, text: str, stored: Mapping[str, bytes]) -> None:  # noqa: ARG002 - see resume
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
    """Writes credentials to a file that only its owner may read, new or continued."""

    def __init__(self, path: Path) -> None:
        """Raises HandoverRefusedError when there is no folder for it."""
        self._path = path.absolute()
        self._draft = self._path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.draft")
        if not self._path.parent.is_dir():
            raise HandoverRefusedError(f"There is no folder {self._path.parent}: make it first.")

    def prepare(self, text: str, stored: Mapping[str, bytes]) -> None:
        """Writes the draft and waits until it is on disk."""
        # What a killed run left, or one that is not done yet, comes first: else two drafts would
        # continue the same text, and one of them could not be named.
        self.resume(stored)
        kept = self._kept_before(text, stored)
        try:
            _write_private(self._draft, kept + text)
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
        for draft in self._path.parent.glob(f"{glob.escape(self._path.name)}.*.draft"):
            drafted = _text_of(draft)
            nameable = not os.path.lexists(self._path) or self._is_continued_by(drafted)
            if nameable and _all_stored(drafted, stored):
                return self._name(draft)
        return ""

    def _kept_before(self, text: str, stored: Mapping[str, bytes]) -> str:
        """What the file holds, if `text` may follow it; nothing where there is no file."""
        if not os.path.lexists(self._path):
            return ""
        if not _is_ours(self._path):
            raise OutputNotOursError(self._path)
        kept = _text_of(self._path)
        if not _all_stored(kept, stored):
            raise OutputExistsError(self._path)
        if taken := read_text(kept).keys() & read_text(text).keys():
            raise VariableTakenError(self._path, taken)
        return kept if kept.endswith("\n") else f"{kept}\n"

    def _is_continued_by(self, drafted: str) -> bool:
        """Whether nothing is lost of a file that a draft replaces."""
        kept = _text_of(self._path)
        added = digests(drafted).keys() - digests(kept).keys()
        return bool(digests(kept) and added and drafted.startswith(kept)) and _is_ours(self._path)

    def _name(self, draft: Path) -> str:
        try:
            if self._is_continued_by(_text_of(draft)):
                draft.replace(self._path)
            else:
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


def _text_of(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        # It is another user's, or has just been named, or is no text.
        return ""


def _is_ours(file: Path) -> bool:
    status = file.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _all_stored(text: str, stored: Mapping[str, bytes]) -> bool:
    """Whether there are keys in the text, and no others than stored ones."""
    found = digests(text)
    return bool(found) and found.items() <= stored.items()
