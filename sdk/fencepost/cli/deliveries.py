"""`fencepost deliveries`."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli import deliveries_output as output
from fencepost.cli.calls import call
from fencepost.cli.connection import Connection, connected
from fencepost.cli.keys import seconds
from fencepost.environment import INGRESS

if TYPE_CHECKING:
    from fencepost.channel import Channel
    from fencepost.ingress.v1 import ingress_pb2 as pb

HELP = """What forges sent, newest first: what came of it, and why something made no work.

All filters that are given must hold. `fencepost timeline` with a delivery's id tells its story.
"""

PAGE_SIZE = 1000
SHOWN_MAX = 100_000


class Outcome(StrEnum):
    """What may have become of a delivery."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    REFUSED = "refused"


@connected(INGRESS)
def deliveries(
    connection: Connection,
    *,
    endpoint: Annotated[
        str, typer.Option("--endpoint", metavar="NAME", help="Only of this endpoint.")
    ] = "",
    outcome: Annotated[
        Outcome | None, typer.Option("--outcome", help="Only what came to this.")
    ] = None,
    event: Annotated[
        str, typer.Option("--event", metavar="EVENT", help="Only of this event: pull_request, …")
    ] = "",
    since: Annotated[
        int | None,
        typer.Option(
            "--since", parser=seconds, metavar="2h|30m", help="Only what came within this time."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=SHOWN_MAX, help="At most this many.")
    ] = 50,
) -> None:
    """Asks ingress for deliveries."""

    def request() -> "pb.ListDeliveriesRequest":
        from fencepost.ingress.v1 import ingress_pb2 as pb  # noqa: PLC0415  (keeps --help quick)

        wanted = pb.ListDeliveriesRequest(endpoint=endpoint, event=event)
        if outcome is not None:
            wanted.outcome = pb.DeliveryOutcome.Value(f"DELIVERY_OUTCOME_{outcome.name}")
        if since is not None:
            now = datetime.now(UTC)  # noqa: TID251 - whoever asks means their own clock
            wanted.received_from.FromDatetime(now - timedelta(seconds=since))
        return wanted

    found, is_all = call(connection, lambda channel: _newest(channel, request(), limit))
    output.show(found, is_all=is_all, as_json=connection.as_json)


async def _newest(
    channel: "Channel", wanted: "pb.ListDeliveriesRequest", limit: int
) -> "tuple[list[pb.Delivery], bool]":
    """Up to `limit` of them, and whether these are all."""
    from fencepost.ingress.v1 import ingress_pb2_grpc  # noqa: PLC0415  (keeps --help quick)

    stub: Any = ingress_pb2_grpc.IngressServiceStub(channel)
    found: list[pb.Delivery] = []
    while True:
        wanted.page_size = min(PAGE_SIZE, limit - len(found))
        page: pb.ListDeliveriesResponse = await stub.ListDeliveries(wanted)
        found += page.deliveries
        wanted.page_token = page.next_page_token
        if not page.next_page_token or len(found) >= limit:
            return found, not page.next_page_token
