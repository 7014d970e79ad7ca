"""How keys are shown; a credential only where its place was chosen."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencepost.cli.output import console, plain, show_json, shown_time, stamp

if TYPE_CHECKING:
    from fencepost.watchdog.v1 import access_pb2

    Made = access_pb2.CreateKeyResponse | access_pb2.RotateKeyResponse

HOW_TO_USE = "Set FENCEPOST_API_KEY to it, or FENCEPOST_API_KEY_FILE to a file that holds it."


def show_made(answer: "Made", path: str | None, *, as_json: bool) -> None:
    """The new key; its credential is printed unless it is in a file.

    Without a terminal the credential stands alone on standard output, for `$(…)`.
    """
    if as_json:
        credential = answer.credential if path is None else None
        key = as_document(answer.key)
        show_json({"key": key, "credential": credential, "credential_file": path})
        return
    sentences = [made_sentence(answer.key)]
    if path is not None:
        sentences.append(f"Its credential is in {path}, which only you may read.")
        print(plain("\n".join(sentences)))
    elif sys.stdout.isatty():
        print(plain(f"{sentences[0]}\nIts credential is shown once:\n\n  {answer.credential}\n"))
        print(HOW_TO_USE)
    else:
        print(plain(sentences[0]), file=sys.stderr)
        print(answer.credential)


def made_sentence(key: "access_pb2.ApiKey") -> str:
    """What was made."""
    whose = f"tenant {key.tenant}" if key.tenant else "no tenant, so of all"
    end = f"until {shown_time(key.ends_at)}" if key.HasField("ends_at") else "without an end"
    succeeds = f", in place of {key.rotated_from}" if key.rotated_from else ""
    return (
        f"Key {key.key_id} ({key.label}) was made{succeeds}: of {whose}, {end}, "
        f"for {', '.join(scope_names(key))}."
    )


def show_revoked(key: "access_pb2.ApiKey", *, as_json: bool) -> None:
    """The key that has ended."""
    if as_json:
        show_json({"key": as_document(key)})
    else:
        print(plain(f"Key {key.key_id} ({key.label}) ended at {shown_time(key.ends_at)}."))
        print("Every service refuses it within five seconds.")


def show_list(keys: "Sequence[access_pb2.ApiKey]", *, as_json: bool) -> None:
    """Keys, one a line."""
    if as_json:
        show_json({"keys": [as_document(key) for key in keys]})
        return
    from rich.table import Table  # noqa: PLC0415  (keeps --help quick)
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("key id", "tenant", "label", "scopes", "made", "ends"):
        table.add_column(name, no_wrap=name in ("key id", "made", "ends"), overflow="fold")
    for key in keys:
        cells = (
            key.key_id,
            key.tenant or "(all)",
            key.label,
            ", ".join(scope_names(key)),
            shown_time(key.created_at)[:10],
            shown_time(key.ends_at)[:16] if key.HasField("ends_at") else "never",
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    console().print(table)


def as_document(key: "access_pb2.ApiKey") -> dict[str, Any]:
    """A key for programs."""
    return {
        "key_id": key.key_id,
        "tenant": key.tenant or None,
        "label": key.label,
        "scopes": scope_names(key),
        "created_at": stamp(key.created_at),
        "ends_at": stamp(key.ends_at, is_set=key.HasField("ends_at")),
        "rotated_from": key.rotated_from or None,
    }


def scope_names(key: "access_pb2.ApiKey") -> list[str]:
    """Scopes as the command line takes them; one of a later version as its number."""
    from fencepost.common.v1 import access_pb2  # noqa: PLC0415  (keeps --help quick)

    known = set(access_pb2.Scope.values())
    return [
        access_pb2.Scope.Name(scope).removeprefix("SCOPE_").lower()
        if scope in known
        else str(scope)
        for scope in key.scopes
    ]
