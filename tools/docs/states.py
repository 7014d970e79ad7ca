"""docs/states.md: the declared states and edges, as diagrams."""

from collections.abc import Iterator, Sequence

from shared.schema.states import (
    ATTEMPT_EDGES,
    INTENT_EDGES,
    LEASE_EDGES,
    SESSION_EDGES,
    Edge,
)

MACHINES: dict[str, Sequence[Edge]] = {
    "Intent": INTENT_EDGES,
    "Lease": LEASE_EDGES,
    "Session": SESSION_EDGES,
    "Publication attempt": ATTEMPT_EDGES,
}
OPENING = """\
# States

Every state and every legal edge, with the operation that takes it. Written by `make docs` from
`shared/schema/states.py`; a transition that is not here is a fault.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([OPENING, *(_machine(name, edges) for name, edges in MACHINES.items())])


def _machine(name: str, edges: Sequence[Edge]) -> str:
    kind = type(edges[0].target)
    about = (kind.__doc__ or "").strip()
    return "\n".join([f"## {name}", "", about, "", "```mermaid", *_diagram(edges), "```", ""])


def _diagram(edges: Sequence[Edge]) -> Iterator[str]:
    yield "stateDiagram-v2"
    for edge in edges:
        # A colon would end the label.
        label = edge.operation.replace(":", ",")
        yield f"    {edge.source or '[*]'} --> {edge.target}: {label}"
    left = {edge.source for edge in edges if edge.source != edge.target}
    for state in dict.fromkeys(edge.target for edge in edges):
        if state not in left:
            yield f"    {state} --> [*]"
