"""How answers are shown: text for a person, one JSON document for a program."""

import json
import os
import re
import sys
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp
    from rich.console import Console
    from rich.text import Text

PIPED_COLUMNS: Final = 160
"""Width of text that goes to a file or a program, unless COLUMNS says another."""

_ADDRESS = re.compile(r"https?://[^\s;,]+")

MINUTE, HOUR, DAY = 60, 3600, 86_400


def plain(text: str) -> str:
    """The text without anything that a terminal would obey; others than we wrote parts of it."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in text
    )


def console() -> "Console":
    """Where text for people goes; without a terminal there is no colour and little wrapping."""
    from rich.console import Console  # noqa: PLC0415  (keeps --help quick)

    is_narrow = sys.stdout.isatty() or os.environ.get("COLUMNS")  # noqa: TID251  (as rich does)
    return Console(
        highlight=False, markup=False, emoji=False, width=None if is_narrow else PIPED_COLUMNS
    )


def linked(text: str) -> "Text":
    """The text, safe, with its addresses as links that stay whole where a line is broken."""
    from rich.style import Style  # noqa: PLC0415  (keeps --help quick)
    from rich.text import Text  # noqa: PLC0415  (as above)

    shown = Text(plain(text))
    for found in _ADDRESS.finditer(shown.plain):
        shown.stylize(Style(link=found.group()), *found.span())
    return shown


def show_json(document: dict[str, Any]) -> None:
    """Prints one document."""
    print(json.dumps(document, ensure_ascii=False, indent=2))


def moment_of(timestamp: "Timestamp") -> datetime:
    """A time of the contract."""
    return timestamp.ToDatetime(tzinfo=UTC)


def stamp(timestamp: "Timestamp", *, is_set: bool = True) -> str | None:
    """A time for programs, RFC 3339 in UTC; None where it is not set."""
    return timestamp.ToJsonString() if is_set else None


def shown_time(timestamp: "Timestamp") -> str:
    """A time for people."""
    return f"{moment_of(timestamp):%Y-%m-%d %H:%M:%S} UTC"


def number(value: float) -> str:
    """A number as people write it."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def length(seconds: float) -> str:
    """A length in its two largest units: 40 s, 12 min 5 s, 3 h 20 min, 5 d 2 h."""
    total = int(seconds)
    units = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s"))
    for (size, name), (smaller, smaller_name) in pairwise(units):
        if total >= size:
            rest = total % size // smaller
            first = f"{total // size} {name}"
            return f"{first} {rest} {smaller_name}" if rest else first
    return f"{total} s"
