"""How connections and what changes of them are shown; a token never is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencepost.cli.output import console, plain, show_json, shown_time, stamp

if TYPE_CHECKING:
    from fencepost.publisher.v1 import connections_pb2 as pb

NOT_PUT = "Nothing was put."
NOTHING = "Everything is as declared."


def show_list(connections: "Sequence[pb.Connection]", *, as_json: bool) -> None:
    """Connections, one a line."""
    if as_json:
        show_json({"connections": [as_document(connection) for connection in connections]})
        return
    from rich.table import Table  # noqa: PLC0415  (keeps --help quick)
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("tenant", "host", "forge", "base url", "sealed under", "disabled"):
        table.add_column(name, overflow="fold")
    for connection in connections:
        cells = (
            connection.tenant,
            connection.forge_instance,
            forge_of(connection),
            connection.base_url,
            connection.sealing_key_id,
            shown_time(connection.disabled_at)[:16] if _is_disabled(connection) else "no",
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    console().print(table)


def changes_of(
    stands: "pb.Connection | None", request: "pb.PutConnectionRequest"
) -> list[tuple[str, str, str]]:
    """What would change: field, before, after."""
    values = [
        ("forge", forge_of(stands) if stands else "", forge_of(request)),
        ("base_url", stands.base_url if stands else "", request.base_url.rstrip("/")),
    ]
    changes = [each for each in values if each[1] != each[2]]
    if request.token:
        changes.append(("token", "the stored one" if stands else "", "the given one"))
    if stands and _is_disabled(stands) and request.enable:
        changes.append(("disabled", "true", "false"))
    return changes


def show_changes(stands: "pb.Connection | None", request: "pb.PutConnectionRequest") -> None:
    """What would change, like a diff."""
    changes = changes_of(stands, request)
    if changes:
        print(plain(f"{'~' if stands else '+'} {request.forge_instance}"))
    for field, before, after in changes:
        what = f"{field}: {before} -> {after}" if stands else f"{field} = {after}"
        print(plain(f"    {what}"))


def show_put(answer: "pb.PutConnectionResponse", *, as_json: bool) -> None:
    """What became of it."""
    if as_json:
        show_json({"changed": answer.changed, "connection": as_document(answer.connection)})
    elif not answer.changed:
        print(NOTHING)
    else:
        print(plain(sentence_of(answer.connection)))


def show_disabled(connection: "pb.Connection", *, as_json: bool) -> None:
    """The connection that is not used any more."""
    if as_json:
        show_json({"connection": as_document(connection)})
    else:
        print(plain(sentence_of(connection)))


def sentence_of(connection: "pb.Connection") -> str:
    """The connection for people."""
    whose = f"The connection of tenant {connection.tenant} to {connection.forge_instance}"
    if _is_disabled(connection):
        return f"{whose} is disabled since {shown_time(connection.disabled_at)}."
    return f"{whose} goes to {connection.base_url}."


def as_document(connection: "pb.Connection") -> dict[str, Any]:
    """A connection for programs."""
    return {
        "tenant": connection.tenant,
        "forge_instance": connection.forge_instance,
        "forge": forge_of(connection),
        "base_url": connection.base_url,
        "version": connection.version,
        "sealing_key_id": connection.sealing_key_id,
        "created_at": stamp(connection.created_at),
        "changed_at": stamp(connection.changed_at),
        "disabled_at": stamp(connection.disabled_at, is_set=_is_disabled(connection)),
    }


def forge_of(connection: "pb.Connection | pb.PutConnectionRequest") -> str:
    """Its kind of forge in small letters; one of a later version as its number."""
    from fencepost.publisher.v1 import connections_pb2 as pb  # noqa: PLC0415  (quick --help)

    value = pb.ForgeKind.DESCRIPTOR.values_by_number.get(connection.forge)
    if value is None:
        return str(connection.forge)
    return value.name.removeprefix("FORGE_KIND_").lower()


def _is_disabled(connection: "pb.Connection") -> bool:
    return connection.HasField("disabled_at")
