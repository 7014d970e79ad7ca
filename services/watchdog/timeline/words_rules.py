"""Times, lengths and ids as people read them."""

import re
from datetime import datetime, timedelta

SHA_CHARACTERS = 7
MINUTE, HOUR, DAY = 60, 3600, 86_400
FLAGS = re.compile("[0-9a-f]{2}")
SAMPLED = 0x01

Ids = dict[str, str]


def moment(at: datetime, now: datetime) -> str:
    """A time with how far it is from now: "18:40:12 UTC (3 h ago)"; with its date unless today."""
    day = "" if at.date() == now.date() else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M:%S} UTC ({distance(at, now)})"


def distance(at: datetime, now: datetime) -> str:
    """How far a time is from now: "3 h ago", "in 20 s", "now"."""
    seconds = (now - at) / timedelta(seconds=1)
    if abs(seconds) < 1:
        return "now"
    return f"{length(seconds)} ago" if seconds > 0 else f"in {length(-seconds)}"


def length(seconds: float) -> str:
    """A length in its largest unit that is at least one: 40 s, 12 min, 3 h, 5 d."""
    if seconds < MINUTE:
        return f"{int(seconds)} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)} h"
    return f"{int(seconds // DAY)} d"


def size(size_bytes: int) -> str:
    """A number of bytes: 900 bytes, 12 KiB, 3 MiB."""
    if size_bytes < 10_000:
        return count(size_bytes, "byte")
    kib = size_bytes / 1024
    return f"{kib:,.0f} KiB" if kib < 10_000 else f"{kib / 1024:.0f} MiB"


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 span, 2 spans."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(sha: str) -> str:
    """A commit id as people say it."""
    return sha[:SHA_CHARACTERS]


def because(reason: str) -> str:
    """A reason as the end of a sentence; nothing where there is none."""
    return f": {reason.rstrip('. ')}." if reason else "."


def ids(**named: object) -> Ids:
    """Ids that belong to an event; those that are None or empty are left out."""
    return {name: str(value) for name, value in named.items() if value not in (None, "")}


def trace_id(traceparent: str) -> str:
    """The sampled trace of a W3C trace context, hex; empty when nobody kept one."""
    parts = traceparent.split("-")
    well_formed = len(parts) >= 4 and len(parts[1]) == 32 and FLAGS.fullmatch(parts[3])
    return parts[1] if well_formed and int(parts[3], 16) & SAMPLED else ""
