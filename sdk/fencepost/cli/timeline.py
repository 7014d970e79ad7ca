"""`fencepost timeline`."""

import re
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.calls import call
from fencepost.cli.connection import Connection, connected, usage_error
from fencepost.cli.output import console, linked, moment_of, plain, show_json, stamp
from fencepost.environment import WATCHDOG

if TYPE_CHECKING:
    from rich.table import Table

    from fencepost.channel import Channel
    from fencepost.watchdog.v1 import watchdog_pb2

HELP = """What happened to a piece of work, what it waits for, and what you can do now.

Give the address of the pull or merge request as your browser shows it, or the delivery id that
the forge shows in its list of webhooks. If nothing was received, it says so, and when each
endpoint was last heard.
"""

_ADDRESS_WITHOUT_SCHEME = re.compile(r"[\w.:-]+\.[\w.:-]+/.+/(pulls?|merge_requests)/\d+.*")


@connected(WATCHDOG)
def timeline(
    connection: Connection,
    *,
    subject: Annotated[
        str, typer.Argument(metavar="DELIVERY_ID|URL", help="Delivery id, or pull-request URL.")
    ],
    ids: Annotated[
        bool, typer.Option("--ids", help="Show the ids that belong to each event.")
    ] = False,
) -> None:
    """Asks the watchdog for a story."""
    if not subject.strip():
        usage_error("DELIVERY_ID|URL is empty.")
    answer = call(connection, lambda channel: _ask(channel, subject))
    if connection.as_json:
        show_json(_as_json(answer))
    else:
        _show(answer, ids=ids)


async def _ask(channel: "Channel", subject: str) -> "watchdog_pb2.GetTimelineResponse":
    from fencepost.watchdog.v1 import watchdog_pb2, watchdog_pb2_grpc  # noqa: PLC0415

    stub: Any = watchdog_pb2_grpc.WatchdogServiceStub(channel)
    request = watchdog_pb2.GetTimelineRequest(**named(subject))
    answer: watchdog_pb2.GetTimelineResponse = await stub.GetTimeline(request)
    return answer


def named(subject: str) -> dict[str, str]:
    """The field of the request that the text means."""
    if "://" in subject:
        return {"change_request_url": subject}
    if _ADDRESS_WITHOUT_SCHEME.fullmatch(subject):
        return {"change_request_url": f"https://{subject}"}
    return {"delivery_id": subject}


def _as_json(answer: "watchdog_pb2.GetTimelineResponse") -> dict[str, Any]:
    return {
        "title": answer.title,
        "standing": answer.standing,
        "truncated": answer.truncated,
        "events": [
            {
                "at": stamp(event.at),
                "service": event.service,
                "kind": event.kind,
                "text": event.text,
                "ids": dict(sorted(event.ids.items())),
                "trace_id": event.trace_id,
            }
            for event in answer.events
        ],
        "next_commands": list(answer.next_commands),
    }


def _show(answer: "watchdog_pb2.GetTimelineResponse", *, ids: bool) -> None:
    from rich.padding import Padding  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    out = console()
    out.print(Text(plain(answer.title), style="bold"))
    out.print(Padding(linked(answer.standing), (1, 2)))
    if answer.truncated:
        out.print(Text("  There is more; the oldest events are left out.", style="yellow"))
    day: date | None = None
    table = _table()
    for event in answer.events:
        at = moment_of(event.at)
        if at.date() != day:
            day = at.date()
            table.add_row(Text(f"{day} UTC", style="dim"), "", "")
        text = linked(event.text)
        if ids:
            known = " ".join(f"{name}={value}" for name, value in sorted(event.ids.items()))
            text.append(plain(f"\n{event.kind} {known}"), style="dim")
        table.add_row(f"{at:%H:%M:%S}.{at.microsecond // 1000:03}", event.service, text)
    if answer.events:
        out.print(Padding(table, (0, 0, 1, 2)))
    _show_end(out, answer)


def _table() -> "Table":
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("time", no_wrap=True)
    table.add_column("service", no_wrap=True, style="cyan")
    table.add_column("text", overflow="fold")
    return table


def _show_end(out: Any, answer: "watchdog_pb2.GetTimelineResponse") -> None:
    traces = sorted({event.trace_id for event in answer.events if event.trace_id})
    for trace in traces[:3]:
        out.print(f"Trace  {plain(trace)}", style="dim")
    for command in answer.next_commands:
        out.print(f"Next   {plain(command)}", soft_wrap=True)
