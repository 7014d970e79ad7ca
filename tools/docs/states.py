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

Every state and every legal edge, with the code that takes it (below `services`). Written by
`make docs` from `shared/schema/states.py`; a transition that is not here is a fault, and the tests'
databases refuse it.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([OPENING, *(_machine(name, edges) for name, edges in MACHINES.items())])


def _machine(name: str, edges: Sequence[Edge]) -> str:
    kind = type(edges[0].target)
    about = (kind.__doc__ or "").strip()
    diagram = ["```mermaid", *_diagram(edges), "```", ""]
    return "\n".join([f"## {name}", "", about, "", *diagram, *_takers(edges), *_unreached(edges)])


def _diagram(edges: Sequence[Edge]) -> Iterator[str]:
    yield "stateDiagram-v2"
    for edge in edges:
        yield f"    {edge.source or '[*]'} --> {edge.target}: {edge.when}"
    left = {edge.source for edge in edges if edge.source != edge.target}
    for state in dict.fromkeys(edge.target for edge in edges):
        if state not in left:
            yield f"    {state} --> [*]"


def _takers(edges: Sequence[Edge]) -> Iterator[str]:
    yield "| from | to | taken by |"
    yield "|---|---|---|"
    for edge in edges:
        operations = ", ".join(f"`{operation}`" for operation in edge.operations)
        yield f"| {edge.source or ''} | {edge.target} | {operations} |"
    yield ""


def _unreached(edges: Sequence[Edge]) -> Iterator[str]:
    reached = {edge.target for edge in edges}
    unreached = [state for state in type(edges[0].target) if state not in reached]
    if unreached:
        yield f"Known to the schema, and nothing leads there: {', '.join(unreached)}."
        yield ""
