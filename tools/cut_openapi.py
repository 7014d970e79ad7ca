"""Cuts GitHub's published OpenAPI description to the operations this project uses.

Usage: python -m tools.cut_openapi api.github.com.json tests/published/github/openapi.json
The input is generated/api.github.com.json of the npm package @octokit/openapi.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "/app": ("get",),
    "/repos/{owner}/{repo}/issues/{issue_number}/comments": ("get", "post"),
    "/repos/{owner}/{repo}/pulls/{pull_number}": ("get",),
    "/repos/{owner}/{repo}/pulls/{pull_number}/reviews": ("get", "post"),
    "/user": ("get",),
}
COMPONENT = "#/components/"


class CutError(Exception):
    """The description lacks something the cut needs; the message says what."""


def cut(
    description: Mapping[str, object], operations: Mapping[str, tuple[str, ...]] = OPERATIONS
) -> dict[str, object]:
    """The description with only these operations and the components they reach.

    Raises CutError where an operation or a referenced component is missing.
    """
    paths = {
        path: {method: _member(description, "paths", path, method) for method in methods}
        for path, methods in operations.items()
    }
    components: dict[str, dict[str, object]] = {}
    pending = set(_references(paths))
    while pending:
        section, name = pending.pop().removeprefix(COMPONENT).split("/", 1)
        if name not in components.setdefault(section, {}):
            component = _member(description, "components", section, name)
            components[section][name] = component
            pending.update(_references(component))
    kept = {key: description[key] for key in ("openapi", "info", "servers") if key in description}
    return {**kept, "paths": paths, "components": components}


def _references(node: object) -> Iterator[str]:
    # Discriminator mappings name components outside `$ref`, so every such string counts.
    if isinstance(node, str):
        if node.startswith(COMPONENT):
            yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _member(node: object, *steps: str) -> object:
    for step in steps:
        if not isinstance(node, Mapping) or step not in node:
            raise CutError(f"the description has no {' > '.join(steps)}")
        node = node[step]
    return node


def main() -> None:
    """Reads the whole description, writes the cut one: sorted, so that a newer cut diffs well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("description", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    description = json.loads(arguments.description.read_bytes())
    text = json.dumps(cut(description), indent=1, sort_keys=True, ensure_ascii=False)
    arguments.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
