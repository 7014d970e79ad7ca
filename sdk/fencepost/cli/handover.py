"""Where a new credential goes: a private file or a terminal, never by accident into a log (K2).

The place is settled before the key is made, since its credential can be had only once.
"""

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fencepost.cli.connection import usage_error

NO_PLACE = (
    "The new key's credential would go where others may read it, as the output is no terminal: "
    "no key was made. Name a file with --output FILE, or say --show to print it all the same."
)
BOTH = "--output and --show are two places for one credential: keep one of them."


class Handover(Protocol):
    """Takes one credential to its holder."""

    @property
    def path(self) -> str | None:
        """The file it is in; None when it is printed."""

    def give(self, credential: str) -> None:
        """Hands it over; raises OSError."""

    def give_up(self) -> None:
        """No credential was made, or none is known."""


@dataclass(frozen=True)
class Printed:
    """Printed with the answer."""

    path: str | None = None

    def give(self, credential: str) -> None:
        """Nothing to do yet: the answer shows it."""

    def give_up(self) -> None:
        """Nothing was begun."""


@dataclass(frozen=True)
class Written:
    """Written to a file that only its owner may read, and that did not exist."""

    file: Path
    handle: int

    @property
    def path(self) -> str | None:
        """The file."""
        return str(self.file)

    def give(self, credential: str) -> None:
        """Writes it, and waits until it is on disk."""
        with os.fdopen(self.handle, "w") as file:
            file.write(f"{credential}\n")
            file.flush()
            os.fsync(self.handle)

    def give_up(self) -> None:
        """Removes the file."""
        os.close(self.handle)
        self.file.unlink(missing_ok=True)


def handover(output: Path | None, *, show: bool) -> Handover:
    """The place that was chosen; ends with a usage error when there is none."""
    if output is not None and show:
        usage_error(BOTH)
    if output is not None:
        return _opened(output)
    if not show and not sys.stdout.isatty():
        usage_error(NO_PLACE)
    return Printed()


def _opened(file: Path) -> Written:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return Written(file, os.open(file, flags, stat.S_IRUSR | stat.S_IWUSR))
    except FileExistsError:
        usage_error(f"{file} exists and is left as it is: no key was made. Name another file.")
    except OSError as error:
        usage_error(f"{file} cannot be written, no key was made: {error.strerror}.")
