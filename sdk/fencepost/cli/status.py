"""`fencepost status`."""

from typing import TYPE_CHECKING, Any

from fencepost.cli.calls import call
from fencepost.cli.connection import Connection, connected
from fencepost.cli.output import (
    console,
    length,
    moment_of,
    number,
    plain,
    show_json,
    stamp,
)
from fencepost.environment import WATCHDOG

if TYPE_CHECKING:
    from fencepost.channel import Channel
    from fencepost.watchdog.v1 import watchdog_pb2

HELP = """How the suite is, in figures.

A figure that cannot be observed says so, with the reason: it is not zero, it is not known. An
operator's key sees all tenants unless --tenant names one.
"""

SECONDS = "_seconds"
WITHOUT_DATABASE = "Nothing can be observed: look at the database first."


@connected(WATCHDOG)
def status(connection: Connection) -> None:
    """Asks the watchdog for its figures."""
    answer = call(connection, _ask)
    if connection.as_json:
        show_json({"figures": [_as_json(figure) for figure in answer.figures]})
    else:
        _show(answer)


async def _ask(channel: "Channel") -> "watchdog_pb2.GetStatusResponse":
    from fencepost.watchdog.v1 import watchdog_pb2, watchdog_pb2_grpc  # noqa: PLC0415

    stub: Any = watchdog_pb2_grpc.WatchdogServiceStub(channel)
    answer: watchdog_pb2.GetStatusResponse = await stub.GetStatus(watchdog_pb2.GetStatusRequest())
    return answer


def _as_json(figure: "watchdog_pb2.Figure") -> dict[str, Any]:
    is_observed = figure.WhichOneof("observation") == "value"
    return {
        "name": figure.name,
        "labels": dict(sorted(figure.labels.items())),
        "description": figure.description,
        "value": figure.value if is_observed else None,
        "unobservable_reason": None if is_observed else figure.unobservable_reason,
        "at": stamp(figure.at, is_set=figure.HasField("at")),
    }


def _show(answer: "watchdog_pb2.GetStatusResponse") -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("figure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning")
    for figure in answer.figures:
        if figure.WhichOneof("observation") == "value":
            told = Text(plain(f"{_labels(figure)}{figure.description}"), style="dim")
            value = Text(_value(figure), style="bold")
        else:
            told = Text(plain(f"{_labels(figure)}{_why(figure)}"), style="yellow")
            value = Text("unknown", style="yellow")
        table.add_row(Text(plain(figure.name)), value, told)
    out = console()
    out.print(table)
    if not any(figure.WhichOneof("observation") == "value" for figure in answer.figures):
        out.print()
        out.print(WITHOUT_DATABASE)


def _labels(figure: "watchdog_pb2.Figure") -> str:
    labels = [f"{name}={value}" for name, value in sorted(figure.labels.items()) if value]
    return f"{' '.join(labels)}: " if labels else ""


def _value(figure: "watchdog_pb2.Figure") -> str:
    shown = number(figure.value)
    if figure.name.endswith(SECONDS) and figure.value >= 60:
        return f"{shown} ({length(figure.value)})"
    return shown


def _why(figure: "watchdog_pb2.Figure") -> str:
    since = ""
    if figure.HasField("at"):
        since = f", since {moment_of(figure.at):%Y-%m-%d %H:%M:%S} UTC"
    return f"not observable: {figure.unobservable_reason}{since}"
