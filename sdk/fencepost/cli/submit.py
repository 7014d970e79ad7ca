"""`fencepost submit`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from fencepost.cli.calls import call
from fencepost.cli.connection import Connection, connected, usage_error
from fencepost.cli.output import plain, show_json
from fencepost.environment import INGRESS

if TYPE_CHECKING:
    from fencepost.channel import Channel
    from fencepost.ingress.v1 import ingress_pb2

HELP = """Hand in a payload as if the forge had sent it.

For a delivery that was lost: the same id and body again changes nothing and is answered with the
first result, so it is safe to repeat.
"""


@connected(INGRESS)
def submit(
    connection: Connection,
    *,
    payload: Annotated[
        str, typer.Argument(metavar="FILE", help="The body as the forge sends it; - for stdin.")
    ],
    endpoint: Annotated[
        str, typer.Option("--endpoint", metavar="NAME", help="The endpoint it belongs to.")
    ],
    event: Annotated[
        str, typer.Option("--event", metavar="EVENT", help="Name of the event: pull_request, …")
    ],
    delivery_id: Annotated[
        str | None,
        typer.Option(
            "--delivery-id", metavar="ID", help="The forge's id of the delivery; else a new one."
        ),
    ] = None,
    content_type: Annotated[
        str, typer.Option("--content-type", metavar="TYPE", help="Media type of the body.")
    ] = "application/json",
) -> None:
    """Hands the payload to ingress."""
    fields = {
        "endpoint": endpoint,
        "delivery_id": delivery_id or str(uuid4()),
        "event": event,
        "content_type": content_type,
        "body": _body(payload),
    }
    answer = call(connection, lambda channel: _ask(channel, fields))
    told = _as_json(str(fields["delivery_id"]), answer)
    if connection.as_json:
        show_json(told)
    else:
        print(plain(_sentence(told)))


def _body(payload: str) -> bytes:
    if payload == "-":
        return sys.stdin.buffer.read()
    try:
        body = Path(payload).read_bytes()
    except OSError as error:
        usage_error(f"{payload} cannot be read: {error.strerror}.")
    if not body:
        usage_error(f"{payload} is empty.")
    return body


async def _ask(channel: "Channel", fields: dict[str, Any]) -> "ingress_pb2.SubmitDeliveryResponse":
    from fencepost.ingress.v1 import ingress_pb2, ingress_pb2_grpc  # noqa: PLC0415

    stub: Any = ingress_pb2_grpc.IngressServiceStub(channel)
    request = ingress_pb2.SubmitDeliveryRequest(**fields)
    answer: ingress_pb2.SubmitDeliveryResponse = await stub.SubmitDelivery(request)
    return answer


def _as_json(delivery_id: str, answer: "ingress_pb2.SubmitDeliveryResponse") -> dict[str, Any]:
    from fencepost.ingress.v1 import ingress_pb2  # noqa: PLC0415

    outcome = ingress_pb2.DeliveryOutcome.Name(answer.outcome)
    matched = ingress_pb2.DuplicateMatch.Name(answer.matched)
    return {
        "delivery_id": delivery_id,
        "outcome": outcome.removeprefix("DELIVERY_OUTCOME_").lower(),
        "matched": matched.removeprefix("DUPLICATE_MATCH_").lower() if answer.matched else None,
        "first_delivery_id": answer.first_delivery_id,
        "intent_ids": list(answer.intent_ids),
        "reason": answer.reason,
    }


def _sentence(told: dict[str, Any]) -> str:
    quoted = shlex.quote(told["delivery_id"])
    return f"Delivery {told['delivery_id']} {_fate(told)}.\nNext   fencepost timeline {quoted}"


def _fate(told: dict[str, Any]) -> str:
    match told["outcome"]:
        case "accepted":
            return f"was accepted{_with(told, ' and made ')}"
        case "duplicate" if told["matched"] == "delivery_id":
            return f"was received before with this body{_with(told, '; it made ')}"
        case "duplicate":
            first = told["first_delivery_id"]
            return f"asks for work that delivery {first} had made{_with(told, ': ')}"
        case _:
            return f"was recorded and makes no work ({told['reason']})"


def _with(told: dict[str, Any], joint: str) -> str:
    intents = ", ".join(str(intent_id) for intent_id in told["intent_ids"])
    return f"{joint}intent {intents}" if intents else ""
