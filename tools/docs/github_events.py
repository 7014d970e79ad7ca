"""docs/github-events.md: how ingress answers every GitHub event that is published as an example."""

import json
import lzma
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from services.ingress.body_rules import JSON, read_document
from services.ingress.github_rules import read
from services.ingress.rules import IGNORED_REASONS, AskKind, admitted, decide

ARCHIVE = Path(__file__).parents[2] / "tests/payloads/github/index.json.xz"
WORK = "**work**"
WORK_BECAUSE = {
    "": "A pull request has a head that nobody has looked at.",
    AskKind.COMMAND: "A comment holds a command.",
    AskKind.RERUN: "A person runs a check again.",
    AskKind.CHECKS: "A commit is to be checked.",
    AskKind.MERGE_GROUP: "A merge queue's commit is to be checked.",
}
OPENING = """\
# GitHub's events

What ingress makes of each of the {examples} payloads of {events} events that the npm package
`@octokit/webhooks-examples` 7.6.1 publishes, each taken in by itself as the first that is heard of
its pull request, by an endpoint that names no bots of its own. Every one is stored as it came and
answered 202 where it makes work, 200 where it does not. Written by `make docs` from the payloads
and the reader.

A check makes work where a route takes checks and its commit is the head of a pull request that is
known, or the forge names one. A command makes work where a route takes it, and a review that is
asked of a bot which the endpoint names makes work again; none of the payloads shows either.

| event | action | payloads | becomes | because |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Example:
    """One published payload, as a webhook would carry it."""

    event: str
    body: bytes


@dataclass(frozen=True, order=True)
class Answer:
    """What becomes of a payload; `reason` is empty where it makes work, which it may ask for."""

    event: str
    action: str
    reason: str
    asks: str = ""


def examples() -> list[Example]:
    """Every published payload, in the order of the package."""
    events = json.loads(lzma.decompress(ARCHIVE.read_bytes()))
    return [
        Example(event["name"], json.dumps(example).encode())
        for event in events
        for example in event["examples"]
    ]


def answer(example: Example) -> Answer:
    """The answer to a payload that is the first of its pull request."""
    reading = read(example.event, read_document(example.body, JSON))
    reading = admitted(reading, example.event, bot_ids=(), trusted_ids=(), wanted_events=())
    reason = reading.ignored if reading.event is None else decide(None, reading.event).ignored
    asks = "" if reading.asks is None else reading.asks.kind
    return Answer(example.event, reading.event_action, reason or "", asks)


def page() -> str:
    """The whole page."""
    counts = Counter(map(answer, examples()))
    opening = OPENING.format(examples=counts.total(), events=len({each.event for each in counts}))
    return opening + "".join(f"| {' | '.join(cells)} |\n" for cells in _rows(counts))


def _rows(counts: Counter[Answer]) -> Iterator[tuple[str, ...]]:
    because = {reason.value: sentence for reason, sentence in IGNORED_REASONS.items()}
    before = None
    for each, count in sorted(counts.items()):
        event = f"`{each.event}`" if each.event != before else ""
        before = each.event
        action = f"`{each.action}`" if each.action else "none"
        becomes = f"ignored: `{each.reason}`" if each.reason else WORK
        why = because[each.reason] if each.reason else WORK_BECAUSE[each.asks]
        yield event, action, str(count), becomes, why
