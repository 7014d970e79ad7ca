"""`python -m services bootstrap`: the first keys, made once, whatever number of replicas try."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services import bootstrap_store as store
from services.command_settings import BootstrapSettings
from services.first_keys import FirstKey, as_text, first_keys
from services.handover import FileHandover, Handover, HandoverRefusedError, TerminalHandover
from shared.credentials import Credential, new_credential
from shared.settings import load

EXIT_REFUSED = 1
DEFAULT_TENANT = "default"
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

PRESENT = """\
Made by an earlier bootstrap, and not shown again:
{keys}
To replace one, use a key with the scope keys_admin: fencepost keys rotate KEY_ID
If no such key is left, the database's owner removes the lost one, and this makes it anew:
  DELETE FROM fencepost.api_keys WHERE key_id = 'KEY_ID' AND created_by = 'bootstrap'"""


class BootstrapRefusedError(Exception):
    """The keys were not made, or it is not known; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Labels made by this run, keys that were there, and where credentials are.

    `stored` are the digests of the keys that the database now has, by key id.
    """

    made: tuple[str, ...]
    present: tuple[store.MadeKey, ...]
    stored: Mapping[str, bytes] = field(repr=False)
    where: str


def main(arguments: Sequence[str]) -> int:
    """Makes the keys, or says which exist; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        handover = FileHandover(options.output) if options.output else TerminalHandover(sys.stdout)
        url = load(BootstrapSettings).watchdog_database_url.get_secret_value()
        outcome = bootstrap(url, tenant=options.tenant, handover=handover)
    except (BootstrapRefusedError, HandoverRefusedError) as refused:
        sys.stderr.write(f"{refused}\n")
        return EXIT_REFUSED
    sys.stdout.write("".join(f"{line}\n" for line in _told(outcome)))
    return 0


def bootstrap(database_url: str, *, tenant: str, handover: Handover) -> Outcome:
    """Makes those of the first keys that do not exist; only who made them hands them over.

    Each label is unique among bootstrapped keys: a second run waits for the first one's commit
    and then finds its keys. Raises BootstrapRefusedError, HandoverRefusedError.
    """
    try:
        with store.transaction(database_url) as connection:
            made = _make_missing(connection, first_keys(tenant))
            present = store.made_keys(connection)
            stored = store.digests(connection)
            if made:
                handover.prepare(as_text(made), stored)
                _commit(connection)
    except store.Unreachable as failure:
        raise BootstrapRefusedError(
            f"The database of WATCHDOG_DATABASE_URL cannot be reached ({_first_line(failure)})."
        ) from failure
    except store.NotMigrated as failure:
        raise BootstrapRefusedError(
            f"The database has no keys table for this role ({_first_line(failure)}): "
            "run `python -m services migrate` first."
        ) from failure
    except store.TurnNotComeError as failure:
        raise BootstrapRefusedError(
            f"Another bootstrap has been under way for {store.TURN_TIMEOUT_MS} ms: run this again."
        ) from failure
    ours = {credential.key_id for _, credential in made}
    return Outcome(
        made=tuple(key.label for key, _ in made),
        present=tuple(key for key in present if key.key_id not in ours),
        stored=stored,
        where=handover.finish() if made else handover.resume(stored),
    )


def _make_missing(
    connection: store.Session, keys: Sequence[FirstKey]
) -> list[tuple[FirstKey, Credential]]:
    made = []
    for key in keys:
        credential = new_credential()
        row = store.KeyToMake(
            key_id=credential.key_id,
            tenant=key.tenant,
            label=key.label,
            scopes=key.scopes,
            secret_sha256=credential.secret_sha256,
        )
        if store.insert_key(connection, row):
            store.insert_audit_entry(connection, row)
            made.append((key, credential))
    return made


def _commit(connection: store.Session) -> None:
    try:
        connection.commit()
    except store.Unreachable as lost:
        raise BootstrapRefusedError(
            "The answer to the commit was lost, so it is not known whether the keys count: run "
            f"this again, it tells, and keeps what was handed over ({_first_line(lost)})."
        ) from lost


def _told(outcome: Outcome) -> list[str]:
    lines = [f"Made: {', '.join(outcome.made)}."] if outcome.made else []
    if outcome.where:
        lines.append(outcome.where)
    if outcome.present:
        keys = "\n".join(
            f"  {key.label}: key id {key.key_id}, made {key.created_at:%Y-%m-%d %H:%M:%S %Z}"
            f"{', ended' if key.ended else ''}"
            for key in outcome.present
        )
        lines.append(PRESENT.format(keys=keys))
    return lines


def _first_line(failure: Exception) -> str:
    return str(failure).strip().partition("\n")[0]


def _tenant(text: str) -> str:
    if not TENANT.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "a tenant has up to 100 letters, digits, '.', '_' and '-', a letter or digit first"
        )
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m services bootstrap",
        description="Makes the first API keys through WATCHDOG_DATABASE_URL, whose role may make "
        "keys. Safe to run again, and from several places at once: each key is made once.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write a file, mode 0600, not the terminal; one "
        "of an earlier run is continued with the keys that it lacks",
    )
    parser.add_argument(
        "--tenant", type=_tenant, default=DEFAULT_TENANT, help="whose bots the worker key is for"
    )
    return parser
