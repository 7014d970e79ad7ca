"""The spans of the demonstration's path, as the receiver gives them back."""

from examples.demo.trace import STEPS
from examples.trace_receiver.client import ExportedSpan


def a_span(number: int, name: str, service: str, *, parent: str = "") -> ExportedSpan:
    """One of the trace."""
    return ExportedSpan(
        trace_id="1" * 32,
        span_id=f"{number:016x}",
        parent_span_id=parent,
        name=name,
        kind="INTERNAL",
        service_name=service,
        start_ns=0,
        end_ns=1,
        status="OK",
        status_message="",
        attributes={},
        links=(),
        events=(),
    )


def path_spans() -> list[ExportedSpan]:
    """Each step as often as wanted, those of one step below the step above it in turn."""
    made: dict[str, list[ExportedSpan]] = {}
    for step in STEPS:
        name, service = step.name.split(" of ")
        above = made.get(step.below, [])
        made[step.name] = [
            a_span(
                100 * len(made) + number,
                name,
                service,
                parent=above[number % len(above)].span_id if above else "",
            )
            for number in range(step.wanted)
        ]
    return [span for spans in made.values() for span in spans]
