"""`fencepost connections`: list, put and disable."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli import connections_output as output
from fencepost.cli.calls import call
from fencepost.cli.connection import Connection, connected, usage_error
from fencepost.cli.endpoints import read_secret, require_an_answer
from fencepost.environment import PUBLISHER

if TYPE_CHECKING:
    from fencepost.channel import Channel
    from fencepost.publisher.v1 import connections_pb2 as pb

HELP = """Ways into forges: list, put and disable connections, each with its token.

A tenant has at most one for each host. Its token goes in from a file or from your keyboard, is
stored sealed, and is never shown.
"""
LIST_HELP = """List connections by tenant and host, disabled ones too, without tokens."""
PUT_HELP = """Make a connection or change it, after showing what would change.

Without --token-file the token is asked for. What is not said stays as it is.
"""
DISABLE_HELP = """Send and read nothing over a connection any more; what waits for it waits on."""

PAGE_SIZE: Final = 1000
ASK: Final = "Put this?"


class ForgeName(StrEnum):
    """A kind of forge."""

    GITHUB = "github"
    GITLAB = "gitlab"
    FORGEJO = "forgejo"
    GITEA = "gitea"


FORGES: Final = {
    "github.com": ForgeName.GITHUB,
    "gitlab.com": ForgeName.GITLAB,
    "codeberg.org": ForgeName.FORGEJO,
}
API_PATHS: Final = {
    ForgeName.GITHUB: "/api/v3",
    ForgeName.GITLAB: "/api/v4",
    ForgeName.FORGEJO: "/api/v1",
    ForgeName.GITEA: "/api/v1",
}

app = typer.Typer(help=HELP, no_args_is_help=True)

Host = Annotated[str, typer.Argument(metavar="HOST", help="Host of the forge, e.g. github.com.")]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Where its API is, unless where it usually is."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="File that holds the forge's token."),
]


@app.command("list", help=LIST_HELP)
@connected(PUBLISHER)
def list_connections(connection: Connection) -> None:
    """Lists connections."""
    output.show_list(call(connection, _all_connections), as_json=connection.as_json)


@app.command("put", help=PUT_HELP)
@connected(PUBLISHER)
def put(
    connection: Connection,
    *,
    host: Host,
    forge: Annotated[
        ForgeName | None,
        typer.Option("--forge", metavar="FORGE", help=f"{', '.join(ForgeName)}."),
    ] = None,
    base_url: BaseUrl = None,
    token_file: TokenFile = None,
    enable: Annotated[
        bool, typer.Option("--enable", help="Use it again if it was disabled.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Put it without asking.")] = False,
) -> None:
    """Puts a connection."""
    require_an_answer(connection, given=yes, options="--yes to put it")
    stands = find(connection, host)
    request = declared(host, stands, forge=forge, base_url=base_url, enable=enable)
    request.token = _token(connection, token_file, is_new=stands is None)
    changes = output.changes_of(stands, request)
    if not connection.as_json:
        output.show_changes(stands, request)
    if changes and not (yes or typer.confirm(ASK)):
        print(output.NOT_PUT)
        return
    output.show_put(put_it(connection, request), as_json=connection.as_json)


@app.command("disable", help=DISABLE_HELP)
@connected(PUBLISHER)
def disable(
    connection: Connection,
    *,
    host: Host,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for the audit trail.")
    ] = "",
) -> None:
    """Disables a connection."""

    async def ask(channel: "Channel") -> "pb.DisableConnectionResponse":
        from fencepost.publisher.v1 import connections_pb2 as pb  # noqa: PLC0415  (quick --help)

        request = pb.DisableConnectionRequest(forge_instance=host, reason=reason)
        answer: pb.DisableConnectionResponse = await _stub(channel).DisableConnection(request)
        return answer

    output.show_disabled(call(connection, ask).connection, as_json=connection.as_json)


def find(connection: Connection, host: str) -> "pb.Connection | None":
    """The connection to this host as it stands; None: there is none."""
    found = call(connection, _all_connections)
    return next(
        (
            each
            for each in found
            if each.forge_instance == host and connection.tenant in (None, each.tenant)
        ),
        None,
    )


def declared(
    host: str,
    stands: "pb.Connection | None",
    *,
    forge: ForgeName | None,
    base_url: str | None,
    enable: bool = False,
) -> "pb.PutConnectionRequest":
    """The connection as it shall be, still without a token."""
    from fencepost.publisher.v1 import connections_pb2 as pb  # noqa: PLC0415  (quick --help)

    if forge is None:
        forge = ForgeName(output.forge_of(stands)) if stands else FORGES.get(host)
    if forge is None:
        usage_error(f"Which kind of forge {host} is must be said: --forge {'|'.join(ForgeName)}.")
    return pb.PutConnectionRequest(
        forge_instance=host,
        forge=pb.ForgeKind.Value(f"FORGE_KIND_{forge.name}"),
        base_url=base_url or (stands.base_url if stands else usual_base_url(forge, host)),
        enable=enable,
    )


def usual_base_url(forge: ForgeName, host: str) -> str:
    """Where the API of such a forge usually is."""
    if host == "github.com":
        return "https://api.github.com"
    return f"https://{host}{API_PATHS[forge]}"


def put_it(
    connection: Connection, request: "pb.PutConnectionRequest"
) -> "pb.PutConnectionResponse":
    """Puts it; a refusal ends the command."""

    async def ask(channel: "Channel") -> "pb.PutConnectionResponse":
        answer: pb.PutConnectionResponse = await _stub(channel).PutConnection(request)
        return answer

    return call(connection, ask)


def ask_token(question: str, *, may_be_empty: bool) -> str:
    """What somebody types, unseen."""
    default = "" if may_be_empty else None
    return str(typer.prompt(question, default=default, hide_input=True, show_default=False))


def _token(connection: Connection, file: Path | None, *, is_new: bool) -> str:
    """The token from the file or the keyboard; empty: the stored one stays."""
    if file is not None:
        return read_secret(file)
    if not connection.as_json and sys.stdin.isatty():
        question = "Token" if is_new else "Token (empty: the stored one stays)"
        return ask_token(question, may_be_empty=not is_new)
    return usage_error("Nobody can be asked here: say --token-file.") if is_new else ""


async def _all_connections(channel: "Channel") -> "list[pb.Connection]":
    from fencepost.publisher.v1 import connections_pb2 as pb  # noqa: PLC0415  (quick --help)

    found: list[pb.Connection] = []
    token = ""
    while True:
        page = await _stub(channel).ListConnections(
            pb.ListConnectionsRequest(page_size=PAGE_SIZE, page_token=token)
        )
        found += page.connections
        token = page.next_page_token
        if not token:
            return found


def _stub(channel: "Channel") -> Any:
    from fencepost.publisher.v1 import connections_pb2_grpc  # noqa: PLC0415  (quick --help)

    return connections_pb2_grpc.ConnectionServiceStub(channel)
