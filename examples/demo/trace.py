"""What the one trace must tell: each step of the path, in its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.trace_receiver.client import ExportedSpan

FLUSHES = 3
TRACED = frozenset({"ingress", "dispatcher", "publisher", "demo-bot"})
"""Services that the one trace must tell of."""


@dataclass(frozen=True)
class Step:
    """The spans of a step; `below` is the step that they stand below, empty for the root."""

    name: str
    wanted: int
    below: str


STEPS = (
    Step("webhook of ingress", 1, below=""),
    Step("intent.dispatch of dispatcher", 1, below="webhook of ingress"),
    Step("run container-dispatch of demo-bot", 1, below="intent.dispatch of dispatcher"),
    Step("checkpoint.flush of demo-bot", FLUSHES, below="run container-dispatch of demo-bot"),
    Step("checkpoint.flush of dispatcher", FLUSHES, below="checkpoint.flush of demo-bot"),
    Step("publication of publisher", 1, below="run container-dispatch of demo-bot"),
)


def untold(spans: Sequence[ExportedSpan]) -> list[str]:
    """A sentence for each step of which there are too few spans, too many, or misplaced ones."""
    by_id = {span.span_id: span for span in spans}
    places: dict[str, list[str]] = {step.name: [] for step in STEPS}
    for span in by_id.values():
        if (name := _name(span)) in places:
            places[name].append(_step_above(span, by_id))
    return [
        f"the trace must have {step.wanted} {step.name} below {step.below or 'nothing'}"
        for step in STEPS
        if places[step.name] != [step.below] * step.wanted
    ]


def is_whole(spans: Sequence[ExportedSpan]) -> bool:
    """Whether every service told its part: each span's parent came, and the end of each flush."""
    known = {span.span_id for span in spans}
    parents = {span.parent_span_id for span in spans if span.parent_span_id}
    sent = {span.span_id for span in spans if _name(span) == "checkpoint.flush of demo-bot"}
    return sent <= parents <= known and {span.service_name for span in spans} >= TRACED


def _name(span: ExportedSpan) -> str:
    return f"{span.name} of {span.service_name}"


def _step_above(span: ExportedSpan, by_id: Mapping[str, ExportedSpan]) -> str:
    """The nearest step that it stands below, past calls and statements; empty: none."""
    names = {step.name for step in STEPS}
    above = by_id.get(span.parent_span_id)
    while above is not None and _name(above) not in names:
        above = by_id.get(above.parent_span_id)
    return _name(above) if above else ""
