"""`fencepost keys`: create, rotate, revoke and list."""

import re
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from fencepost.cli import keys_output
from fencepost.cli.calls import EXIT_REFUSED, attempt, call, end_refused
from fencepost.cli.connection import Connection, connected
from fencepost.cli.handover import Handover, handover
from fencepost.environment import WATCHDOG

if TYPE_CHECKING:
    from fencepost.channel import Channel
    from fencepost.watchdog.v1 import access_pb2

HELP = """Who may call: make, succeed, end and list API keys.

A key's secret is shown once, when it is made, and stored nowhere: keep it at once.
"""
CREATE_HELP = """Make a key.

It can do no more than your own key. Without --tenant it is of your key's tenant; an operator's
key names the tenant, or makes another key of no tenant.
"""
ROTATE_HELP = """Make a key that succeeds another: the same tenant, scopes and label, a new secret.

The old key goes on working for the overlap, so that its holders can change over in their time.
"""
REVOKE_HELP = """End a key. Every service refuses it within five seconds."""
LIST_HELP = """List keys, newest first, without secrets."""

PAGE_SIZE = 1000
KEYS_MAX = 100_000
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH = re.compile(r"(\d{1,9})([smhd])")

app = typer.Typer(help=HELP, no_args_is_help=True)


class Scope(StrEnum):
    """What a key may do, in the contract's words."""

    DELIVERIES_WRITE = "deliveries_write"
    DELIVERIES_READ = "deliveries_read"
    INTENTS_WRITE = "intents_write"
    INTENTS_READ = "intents_read"
    WORK = "work"
    PUBLISH = "publish"
    WAKE = "wake"
    STATUS_READ = "status_read"
    HEADS_READ = "heads_read"
    CONNECTIONS_ADMIN = "connections_admin"
    ENDPOINTS_ADMIN = "endpoints_admin"
    KEYS_ADMIN = "keys_admin"
    OPERATE = "operate"


SCOPE_HELP = f"What it may do; may be said several times. One of {', '.join(Scope)}."


def seconds(text: str | int) -> int:
    """A length such as 90d, 12h, 30m or 45s; typer parses defaults, too."""
    if isinstance(text, int):
        return text
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise typer.BadParameter("say a number and a unit, such as 90d, 12h, 30m or 45s")
    return int(found[1]) * _SECONDS[found[2]]


KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key: fp_<id>_….")]
RequestId = Annotated[
    str | None,
    typer.Option(
        "--request-id",
        metavar="ID",
        help="Say the same id again where it is not known whether a key was made.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Write the credential to a new file, mode 0600."),
]
Show = Annotated[
    bool, typer.Option("--show", help="Print the credential though the output is no terminal.")
]


@app.command("create", help=CREATE_HELP)
@connected(WATCHDOG)
def create(
    connection: Connection,
    *,
    label: Annotated[str, typer.Option("--label", help="What it is for, for people.")],
    scope: Annotated[list[Scope], typer.Option("--scope", metavar="SCOPE", help=SCOPE_HELP)],
    valid_for: Annotated[
        int | None,
        typer.Option(
            "--valid-for",
            parser=seconds,
            metavar="90d|12h",
            help="How long it lives; else for ever.",
        ),
    ] = None,
    output: Output = None,
    show: Show = False,
    request_id: RequestId = None,
) -> None:
    """Makes a key and hands its credential over."""
    fields: dict[str, Any] = {
        "request_id": request_id or str(uuid4()),
        "label": label,
        "scopes": [f"SCOPE_{each.name}" for each in dict.fromkeys(scope)],
    }

    async def ask(channel: "Channel") -> "access_pb2.CreateKeyResponse":
        from google.protobuf.duration_pb2 import Duration  # noqa: PLC0415

        from fencepost.watchdog.v1 import access_pb2, access_pb2_grpc  # noqa: PLC0415

        if valid_for is not None:
            fields["valid_for"] = Duration(seconds=valid_for)
        stub: Any = access_pb2_grpc.AccessServiceStub(channel)
        answer: access_pb2.CreateKeyResponse = await stub.CreateKey(
            access_pb2.CreateKeyRequest(**fields)
        )
        return answer

    _make(connection, handover(output, show=show), ask, fields["request_id"])


@app.command("rotate", help=ROTATE_HELP)
@connected(WATCHDOG)
def rotate(
    connection: Connection,
    *,
    key_id: KeyId,
    overlap: Annotated[
        int,
        typer.Option(
            "--overlap",
            parser=seconds,
            metavar="1h|30m",
            show_default="1h",
            help="How long the old key goes on working; 0s ends it now.",
        ),
    ] = 3600,
    output: Output = None,
    show: Show = False,
    request_id: RequestId = None,
) -> None:
    """Makes a successor and hands its credential over."""
    request = request_id or str(uuid4())

    async def ask(channel: "Channel") -> "access_pb2.RotateKeyResponse":
        from google.protobuf.duration_pb2 import Duration  # noqa: PLC0415

        from fencepost.watchdog.v1 import access_pb2, access_pb2_grpc  # noqa: PLC0415

        stub: Any = access_pb2_grpc.AccessServiceStub(channel)
        answer: access_pb2.RotateKeyResponse = await stub.RotateKey(
            access_pb2.RotateKeyRequest(
                request_id=request, key_id=key_id, overlap=Duration(seconds=overlap)
            )
        )
        return answer

    _make(connection, handover(output, show=show), ask, request)


def _make(
    connection: Connection,
    place: Handover,
    ask: "Callable[[Channel], Awaitable[Any]]",
    request_id: str,
) -> None:
    """Makes the key and hands over; where its fate is not known, says how to learn it."""
    from fencepost.errors import FencepostError  # noqa: PLC0415  (keeps --help quick)

    try:
        answer = attempt(connection, ask)
    except FencepostError as error:
        place.give_up()
        hint = ""
        if error.code.name in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            hint = f"To learn whether a key was made, repeat with --request-id {request_id}"
        end_refused(connection, error, hint=hint)
    except BaseException:
        place.give_up()
        raise
    try:
        place.give(answer.credential)
    except OSError as error:
        key_id = answer.key.key_id
        typer.echo(
            f"Key {key_id} was made, but its credential could not be written to {place.path} "
            f"({error.strerror}) and is lost: fencepost keys revoke {key_id}",
            err=True,
        )
        raise typer.Exit(EXIT_REFUSED) from error
    keys_output.show_made(answer, place.path, as_json=connection.as_json)


@app.command("revoke", help=REVOKE_HELP)
@connected(WATCHDOG)
def revoke(connection: Connection, *, key_id: KeyId) -> None:
    """Ends a key."""

    async def ask(channel: "Channel") -> "access_pb2.RevokeKeyResponse":
        from fencepost.watchdog.v1 import access_pb2, access_pb2_grpc  # noqa: PLC0415

        stub: Any = access_pb2_grpc.AccessServiceStub(channel)
        answer: access_pb2.RevokeKeyResponse = await stub.RevokeKey(
            access_pb2.RevokeKeyRequest(key_id=key_id)
        )
        return answer

    keys_output.show_revoked(call(connection, ask).key, as_json=connection.as_json)


@app.command("list", help=LIST_HELP)
@connected(WATCHDOG)
def list_keys(connection: Connection) -> None:
    """Lists keys."""
    keys_output.show_list(call(connection, _all_keys), as_json=connection.as_json)


async def _all_keys(channel: "Channel") -> "list[access_pb2.ApiKey]":
    from fencepost.watchdog.v1 import access_pb2, access_pb2_grpc  # noqa: PLC0415

    stub: Any = access_pb2_grpc.AccessServiceStub(channel)
    found: list[access_pb2.ApiKey] = []
    token = ""
    while len(found) < KEYS_MAX:
        page = await stub.ListKeys(
            access_pb2.ListKeysRequest(page_size=PAGE_SIZE, page_token=token)
        )
        found += page.keys
        token = page.next_page_token
        if not token:
            return found
    sys.stderr.write(f"There are more than {KEYS_MAX} keys: the oldest are left out.\n")
    return found
