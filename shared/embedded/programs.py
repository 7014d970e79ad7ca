"""How PostgreSQL's programs are run: as a user they accept, bound to the life of this process."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

from shared.embedded.errors import UserNamespaceRefusedError

LIFELINE = Path(__file__).with_name("lifeline.py")
NOBODY_USER_ID = 65534
PROGRAM_TIMEOUT_S = 120


def command_line(program: Path, *arguments: str) -> list[str]:
    """The command that runs a PostgreSQL program; raises UserNamespaceRefusedError."""
    return [*user_namespace(), *lifeline(), str(program), *arguments]


def environment() -> dict[str, str]:
    """What PostgreSQL sees of our environment: no secret, no PG* variable, messages in English."""
    ours = os.environ  # noqa: TID251 (handed to a child, not read as configuration)
    kept = {name: ours[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in ours}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def run(command: list[str], *, lock: int, said_to_it: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; it keeps the folder's lock should this process die meanwhile."""
    return subprocess.run(
        command,
        input=said_to_it,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env=environment(),
        pass_fds=(lock,),
        timeout=PROGRAM_TIMEOUT_S,
    )


def lifeline() -> list[str]:
    """The words that bind a program to this process; only Linux has a parent-death signal."""
    if not sys.platform.startswith("linux"):
        return []
    return [sys.executable, "-I", "-S", str(LIFELINE), str(os.getpid())]


def user_namespace() -> list[str]:
    """The words that give root, or a user without an account, one that PostgreSQL accepts.

    Files stay owned by the real user outside the namespace.
    """
    user_id = os.geteuid()
    if user_id != 0 and has_account(user_id):
        return []
    shown = shown_user_id(frozenset(account.pw_uid for account in pwd.getpwall()))
    words = ["unshare", "--user", f"--map-user={shown}", f"--map-group={shown}", "--"]
    require_namespace(words, user_id)
    return words


def has_account(user_id: int) -> bool:
    """Whether the system knows a name for the user, on which initdb insists."""
    try:
        pwd.getpwuid(user_id)
    except KeyError:
        return False
    return True


def shown_user_id(known: frozenset[int]) -> int:
    """The user id to show inside the namespace: some ordinary account of this machine.

    The kernel shows files of unmapped users as nobody's, so nobody is the last choice.
    """
    return min(known - {0, NOBODY_USER_ID}, default=NOBODY_USER_ID)


def require_namespace(words: list[str], user_id: int) -> None:
    """Raises UserNamespaceRefusedError where the kernel, or a container's profile, gives none."""
    try:
        answer = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserNamespaceRefusedError(user_id, "the program unshare is missing") from None
    if answer.returncode != 0:
        raise UserNamespaceRefusedError(user_id, answer.stderr.strip())
