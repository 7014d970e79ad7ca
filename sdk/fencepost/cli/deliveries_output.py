"""How deliveries are shown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencepost.cli.output import console, plain, show_json, shown_time, stamp

if TYPE_CHECKING:
    from fencepost.common.v1.key_pb2 import Key
    from fencepost.ingress.v1 import ingress_pb2 as pb

NONE = (
    "Nothing came in that this asks for. `fencepost status` says when each endpoint was last heard."
)
MORE = "There are older ones: say a larger --limit, or narrow it down."
NEXT = "The story of one: fencepost timeline DELIVERY_ID"
STYLES = {"accepted": "green", "refused": "yellow"}


def show(deliveries: "Sequence[pb.Delivery]", *, is_all: bool, as_json: bool) -> None:
    """Deliveries, one a line, newest first."""
    if as_json:
        show_json({"deliveries": [_as_document(each) for each in deliveries], "is_all": is_all})
        return
    if not deliveries:
        print(NONE)
        return
    from rich.table import Table  # noqa: PLC0415  (keeps --help quick)
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("received", "endpoint", "event", "outcome", "why, or its work", "delivery id"):
        table.add_column(name, no_wrap=name in ("received", "outcome"), overflow="fold")
    for each in deliveries:
        outcome = _outcome(each)
        cells = (_event(each), outcome, each.reason or _work(each), each.delivery_id)
        table.add_row(
            Text(shown_time(each.received_at).removesuffix(" UTC")),
            Text(plain(each.endpoint)),
            *(Text(plain(cell), style=STYLES.get(cell, "")) for cell in cells),
        )
    out = console()
    out.print(table)
    out.print()
    out.print(NEXT if is_all else f"{MORE}\n{NEXT}")


def _as_document(delivery: "pb.Delivery") -> dict[str, Any]:
    return {
        "endpoint": delivery.endpoint,
        "delivery_id": delivery.delivery_id,
        "event": delivery.event,
        "event_action": delivery.event_action or None,
        "received_at": stamp(delivery.received_at),
        "outcome": _outcome(delivery),
        "reason": delivery.reason or None,
        "intent_ids": list(delivery.intent_ids),
        "key": _key(delivery.key) if delivery.HasField("key") else None,
        "body_bytes": delivery.body_bytes,
        "body_sha256": delivery.body_sha256,
    }


def _key(key: "Key") -> dict[str, Any]:
    return {
        "forge_instance": key.forge_instance,
        "repo_id": key.repo_id,
        "number": key.number,
        "head_sha": key.head_sha or None,
        "suffix": key.suffix or None,
        "label": key.label,
    }


def _outcome(delivery: "pb.Delivery") -> str:
    """As a word; one of a later version as its number."""
    from fencepost.ingress.v1 import ingress_pb2 as pb  # noqa: PLC0415  (keeps --help quick)

    if delivery.outcome not in pb.DeliveryOutcome.values():
        return str(delivery.outcome)
    name = pb.DeliveryOutcome.Name(delivery.outcome)
    return name.removeprefix("DELIVERY_OUTCOME_").lower()


def _event(delivery: "pb.Delivery") -> str:
    return ".".join(part for part in (delivery.event, delivery.event_action) if part)


def _work(delivery: "pb.Delivery") -> str:
    intents = ", ".join(str(each) for each in delivery.intent_ids)
    return " ".join(
        part for part in (delivery.key.label, intents and f"(intent {intents})") if part
    )
