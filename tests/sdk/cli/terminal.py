"""Runs the command line as a person or a script does: in a process, with or without a terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

SDK = Path(__file__).parents[3] / "sdk"
COMMAND = (sys.executable, "-m", "fencepost.cli")
TIMEOUT_S = 30
ROWS, COLUMNS = 40, 100
_COLOUR_OR_LINK = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")


@dataclass(frozen=True)
class Told:
    """What a command said, and its exit code; a terminal does not tell `err` from `out`.

    `raw` is what a terminal was sent, with colours and links.
    """

    code: int
    out: str
    err: str = ""
    raw: str = ""


@dataclass(frozen=True)
class Shell:
    """A folder and an environment to run commands in."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def having(self, **environment: str) -> Self:
        """The same shell with more in its environment."""
        return replace(self, environment={**self.environment, **environment})

    def run(self, *arguments: str, stdin: bytes = b"") -> Told:
        """Runs a command whose output goes to a program."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self._whole_environment(),
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Told(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run_in_terminal(self, *arguments: str, typed: Sequence[str] = ()) -> Told:
        """Runs a command in a terminal of 100 columns; each line is typed once it is asked for."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        child = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env={**self._whole_environment(), "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            close_fds=True,
            start_new_session=True,
        )
        os.close(theirs)
        shown = _read_all(ours, typed)
        text = _COLOUR_OR_LINK.sub("", shown).replace("\r\n", "\n")
        return Told(child.wait(TIMEOUT_S), text, raw=shown)

    def _whole_environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "PYTHONPATH": str(SDK), **self.environment}


def _read_all(descriptor: int, typed: Sequence[str]) -> str:
    shown, lines = b"", list(typed)
    try:
        while chunk := os.read(descriptor, 65_536):
            shown += chunk
            if lines and shown.endswith(b": "):
                os.write(descriptor, f"{lines.pop(0)}\n".encode())
    except OSError:
        # Linux says so when the last one has closed the other end.
        return shown.decode()
    finally:
        os.close(descriptor)
    return shown.decode()
