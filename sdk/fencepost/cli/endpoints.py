"""`fencepost endpoints`: list, apply, rotate and disable."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli import endpoints_output as output
from fencepost.cli.calls import call
from fencepost.cli.connection import Connection, connected, usage_error
from fencepost.cli.keys import seconds
from fencepost.environment import INGRESS

if TYPE_CHECKING:
    from fencepost.channel import Channel
    from fencepost.ingress.v1 import endpoints_pb2 as pb

HELP = """Where deliveries come from: declare, list and disable endpoints, replace their secrets.

An endpoint says which forge sends, what proves it, and where the work goes. What is changed holds
on every replica within five seconds. A secret goes in from a file and is never shown.
"""
LIST_HELP = """List endpoints by name, disabled ones too, with where each is posted to."""
APPLY_HELP = """Make endpoints as a file declares them, after showing what would change.

The file is TOML: an [[endpoint]] each, with name, forge and secret_file, and [[endpoint.route]]
tables with action and queue. What is left out of an endpoint is unset. An endpoint that the file
does not name stays as it is.
"""
ROTATE_HELP = """Give an endpoint its next secret; the old one counts on for the overlap.

First rotate, then change the secret on the forge, five seconds later or more.
"""
DISABLE_HELP = """Take nothing in from an endpoint any more, anywhere within five seconds."""

PAGE_SIZE = 1000
ENDPOINTS_MAX = 100_000
ASK = "Apply this?"
ANSWERS = "--yes to apply, or --dry-run to look"

app = typer.Typer(help=HELP, no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the endpoint.")]


@app.command("list", help=LIST_HELP)
@connected(INGRESS)
def list_endpoints(connection: Connection) -> None:
    """Lists endpoints."""
    output.show_list(call(connection, _all_endpoints), as_json=connection.as_json)


@app.command("apply", help=APPLY_HELP)
@connected(INGRESS)
def apply(
    connection: Connection,
    *,
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="What declares the endpoints.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    enable: Annotated[
        bool, typer.Option("--enable", help="Serve those again that were disabled.")
    ] = False,
) -> None:
    """Applies a file."""
    requests = declared(file, enable=enable)
    require_an_answer(connection, given=yes or dry_run, options=ANSWERS)
    answers = call(connection, lambda channel: put(channel, requests, validate_only=True))
    if not connection.as_json:
        output.show_changes(requests, answers)
    applies = not dry_run and (yes or not _differ(answers) or typer.confirm(ASK))
    if applies and _differ(answers):
        answers = call(connection, lambda channel: put(channel, requests, validate_only=False))
    output.show_applied(requests, answers, applied=applies, as_json=connection.as_json)


@app.command("rotate", help=ROTATE_HELP)
@connected(INGRESS)
def rotate(
    connection: Connection,
    *,
    name: Name,
    secret_file: Annotated[
        Path,
        typer.Option("--secret-file", metavar="FILE", help="File that holds the new secret."),
    ],
    overlap: Annotated[
        int,
        typer.Option(
            "--overlap",
            parser=seconds,
            metavar="24h|30m",
            help="How long the old secret counts on.",
        ),
    ] = seconds("24h"),
) -> None:
    """Rotates a secret."""
    secret = read_secret(secret_file)

    async def ask(channel: "Channel") -> "pb.RotateEndpointSecretResponse":
        from google.protobuf.duration_pb2 import Duration  # noqa: PLC0415  (keeps --help quick)

        from fencepost.ingress.v1 import endpoints_pb2 as pb  # noqa: PLC0415

        request = pb.RotateEndpointSecretRequest(
            name=name, secret=secret, overlap=Duration(seconds=overlap)
        )
        answer: pb.RotateEndpointSecretResponse = await _stub(channel).RotateEndpointSecret(request)
        return answer

    output.show_rotated(call(connection, ask), as_json=connection.as_json)


@app.command("disable", help=DISABLE_HELP)
@connected(INGRESS)
def disable(
    connection: Connection,
    *,
    name: Name,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for the audit trail.")
    ] = "",
) -> None:
    """Disables an endpoint."""

    async def ask(channel: "Channel") -> "pb.DisableEndpointResponse":
        from fencepost.ingress.v1 import endpoints_pb2 as pb  # noqa: PLC0415

        request = pb.DisableEndpointRequest(name=name, reason=reason)
        answer: pb.DisableEndpointResponse = await _stub(channel).DisableEndpoint(request)
        return answer

    output.show_disabled(call(connection, ask).endpoint, as_json=connection.as_json)


def declared(file: Path, *, enable: bool = False) -> "list[pb.PutEndpointRequest]":
    """What the file declares; ends the command where it declares nothing."""
    from fencepost.endpoint_files import EndpointFileError, read_file  # noqa: PLC0415

    try:
        requests = read_file(file)
    except EndpointFileError as error:
        usage_error(str(error))
    for request in requests:
        request.enable = enable
    return requests


def _differ(answers: "list[pb.PutEndpointResponse]") -> bool:
    return any(answer.created or answer.changes for answer in answers)


def read_secret(file: Path) -> str:
    """The one secret that the file holds; ends the command where it holds none."""
    from fencepost import endpoint_files  # noqa: PLC0415

    try:
        return endpoint_files.read_secret(file)
    except endpoint_files.EndpointFileError as error:
        usage_error(str(error))


def require_an_answer(connection: Connection, *, given: bool, options: str) -> None:
    """A program must say beforehand whether it wants the change."""
    if not given and (connection.as_json or not sys.stdin.isatty()):
        usage_error(f"Nobody can be asked here: say {options}.")


async def put(
    channel: "Channel", requests: "list[pb.PutEndpointRequest]", *, validate_only: bool
) -> "list[pb.PutEndpointResponse]":
    """Puts each endpoint, or only asks what would change."""
    answers: list[pb.PutEndpointResponse] = []
    for request in requests:
        request.validate_only = validate_only
        answers.append(await _stub(channel).PutEndpoint(request))
    return answers


async def _all_endpoints(channel: "Channel") -> "list[pb.Endpoint]":
    from fencepost.ingress.v1 import endpoints_pb2 as pb  # noqa: PLC0415  (keeps --help quick)

    found: list[pb.Endpoint] = []
    token = ""
    while len(found) < ENDPOINTS_MAX:
        page = await _stub(channel).ListEndpoints(
            pb.ListEndpointsRequest(page_size=PAGE_SIZE, page_token=token)
        )
        found += page.endpoints
        token = page.next_page_token
        if not token:
            return found
    sys.stderr.write(f"There are more than {ENDPOINTS_MAX} endpoints: the last are left out.\n")
    return found


def _stub(channel: "Channel") -> Any:
    from fencepost.ingress.v1 import endpoints_pb2_grpc  # noqa: PLC0415  (keeps --help quick)

    return endpoints_pb2_grpc.EndpointServiceStub(channel)
