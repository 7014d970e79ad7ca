"""The secrets of compose.yaml, each in the volume of its one holder, made once and never replaced.

python -m deploy.secret_files make         makes what is missing
python -m deploy.secret_files hand-out     gives the first keys to those who call with them
python -m deploy.secret_files set FILE     stores one of yours, read from the standard input
"""

import argparse
import os
import re
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from services.first_keys import read_text
from services.surroundings import SEALING
from shared.schema.grants import SERVICES, Service
from shared.schema.roles import url_as
from shared.sealing import new_key_line

ROOT = Path("/secrets")
OWNER = "fencepost_owner"
DATABASE = "database:5432/fencepost"
READ_BY_ANOTHER_USER = "database"
"""The holder whose program has an account of its own; nobody else mounts its volume."""

KEYS = {
    "operator": "OPERATOR_API_KEY",
    "ingress": "INGRESS_API_KEY",
    "dispatcher": "DISPATCHER_API_KEY",
    "worker": "WORKER_API_KEY",
}
NAME = re.compile(r"(?P<holder>[a-z]+)/(?P<name>[a-z_]+)")
SECRET_BYTES = 32
SECRET_BYTES_MAX = 64 * 1024


def make(root: Path) -> list[str]:
    """Makes the secrets that are missing; returns their names."""
    made: list[str] = []

    def once(name: str, new: Callable[[], str]) -> str:
        file = root / name
        if not file.exists():
            write(root, name, new())
            made.append(name)
        return file.read_text()

    once("database/superuser_password", _password)
    owner_password = once("database/owner_password", _password)
    owner_url = f"postgresql://{OWNER}:{owner_password}@{DATABASE}"
    once("owner/database_url", lambda: owner_url)
    for service in SERVICES:
        once(f"{service}/database_url", partial(_service_url, owner_url, service))
    once("operator/webhook_secret", _password)
    for service in SEALING:
        once(f"{service}/sealing_keys", new_key_line)
    return made


def hand_out(root: Path) -> list[str]:
    """Gives each holder its key from the bootstrap's file, if it has none; returns the names."""
    credentials = read_text((root / "operator/keys.env").read_text())
    missing = {f"{holder}/api_key": credentials[variable] for holder, variable in KEYS.items()}
    given = [name for name in missing if not (root / name).exists()]
    for name in given:
        write(root, name, missing[name])
    return given


def write(root: Path, name: str, text: str) -> None:
    """Stores a secret whole or not at all, for its holder to read."""
    file = root / name
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    mode = 0o444 if file.parent.name == READ_BY_ANOTHER_USER else 0o400
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w") as opened:
        os.fchmod(handle, mode)
        opened.write(text)
        opened.flush()
        os.fsync(handle)
    draft.replace(file)


def main() -> int:
    """Says what was stored, never what is in it."""
    options = _parser().parse_args()
    match options.command:
        case "make":
            done = make(ROOT)
        case "hand-out":
            done = hand_out(ROOT)
        case _:
            done = [options.file]
            write(ROOT, options.file, _given())
    sys.stdout.write(f"Stored: {', '.join(done)}.\n" if done else "Nothing was missing.\n")
    return 0


def _password() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def _service_url(owner_url: str, service: Service) -> str:
    return url_as(owner_url, service, _password())


def _given() -> str:
    text = sys.stdin.read(SECRET_BYTES_MAX + 1).strip()
    if not text or len(text) > SECRET_BYTES_MAX:
        sys.exit(f"The standard input must hold one secret of up to {SECRET_BYTES_MAX} characters.")
    return text


def _file(text: str) -> str:
    if not (found := NAME.fullmatch(text)) or not (ROOT / found["holder"]).is_dir():
        raise argparse.ArgumentTypeError("must be HOLDER/NAME, such as publisher/forge_token")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.secret_files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make")
    commands.add_parser("hand-out")
    commands.add_parser("set").add_argument("file", type=_file, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
