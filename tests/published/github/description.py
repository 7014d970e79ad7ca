"""GitHub's published description, read as JSON Schema: which operation a call is, what it takes."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]  # Any: the description is data of another project's making

SOURCE = Path(__file__).with_name("openapi.json")


@dataclass(frozen=True)
class Operation:
    """One operation and the path values a call gave it, still percent-encoded."""

    definition: JsonObject
    path_values: dict[str, str]

    def parameters(self, place: str) -> list[JsonObject]:
        """The documented parameters of this place: "path" or "query"."""
        declared = [resolved(parameter) for parameter in self.definition.get("parameters", [])]
        return [parameter for parameter in declared if parameter["in"] == place]

    def response(self, status: int) -> JsonObject | None:
        """What is documented for this status, None where nothing is."""
        response = self.definition["responses"].get(str(status))
        return None if response is None else resolved(response)


@cache
def description() -> JsonObject:
    """The cut description as published."""
    loaded: JsonObject = json.loads(SOURCE.read_bytes())
    return loaded


def find_operation(method: str, path: str) -> Operation | None:
    """The operation this method and percent-encoded path address, None where none is described."""
    for template, methods in description()["paths"].items():
        values = _match(template, path)
        if values is not None and method.lower() in methods:
            return Operation(methods[method.lower()], values)
    return None


def _match(template: str, path: str) -> dict[str, str] | None:
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)
    found = re.fullmatch(pattern, path)
    return None if found is None else found.groupdict()


def resolved(node: JsonObject) -> JsonObject:
    """The node a `$ref` leads to, or the node itself."""
    if "$ref" not in node:
        return node
    target: JsonObject = description()
    for step in node["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return target


def json_schema(schema: JsonObject, *, closed: bool = False) -> JsonObject:
    """This OpenAPI 3.0 schema as JSON Schema 2020-12, with the components it may refer to.

    Closed schemas refuse fields the description does not name.
    """
    components = {"schemas": description()["components"]["schemas"]}
    return {**_translated(schema, closed), "components": _translated(components, closed)}


def _translated(node: Any, closed: bool) -> Any:
    if isinstance(node, list):
        return [_translated(item, closed) for item in node]
    if not isinstance(node, dict):
        return node
    schema = {key: _translated(value, closed) for key, value in node.items()}
    if closed and schema.get("type") == "object" and "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return _with_null(schema) if schema.get("nullable") is True else schema


def _with_null(schema: JsonObject) -> JsonObject:
    if "type" not in schema:
        return {"anyOf": [{"type": "null"}, schema]}
    widened = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        widened["enum"] = [*schema["enum"], None]
    return widened
