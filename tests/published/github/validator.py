"""Judges calls of GitHub's REST API by GitHub's published description, independently of our code.

Where the description is silent and GitHub's documentation is not, the documented rule is
checked too, and the violation quotes it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped] # no stubs

from tests.published.github.description import JsonObject, Operation, find_operation, json_schema

Headers = Sequence[tuple[str, str]]

ACCEPTED_MEDIA_TYPE = re.compile(r"\*/\*|application/(json|vnd\.github[\w.+-]*\+json)")
API_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")
DOCUMENTED_NAME = re.compile(r"[A-Za-z0-9_.-]+")
LINK = re.compile(r'<https?://[^>]+[?&]page=\d+[^>]*>; rel="(first|prev|next|last)"')
PER_PAGE_MAX = 100

FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time", raises=ValueError)  # type: ignore[untyped-decorator] # no stubs
def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


@FORMATS.checks("uri", raises=ValueError)  # type: ignore[untyped-decorator] # no stubs
def _is_uri(value: object) -> bool:
    return not isinstance(value, str) or bool(urlsplit(value).scheme)


def validate_request(method: str, raw_path: str, headers: Headers, body: bytes) -> list[str]:
    """Every way this request departs from the published description; empty for a right one."""
    path, _, query = raw_path.partition("?")
    operation = find_operation(method, path)
    if operation is None:
        return [f"no operation {method} {path} is described"]
    return [
        *_path_violations(operation),
        *_query_violations(operation, query),
        *_header_violations(headers),
        *_request_body_violations(operation, headers, body),
    ]


def validate_response(
    method: str, raw_path: str, status: int, headers: Headers, body: bytes
) -> list[str]:
    """Every way this answer departs from the published description; empty for a right one."""
    operation = find_operation(method, raw_path.partition("?")[0])
    if operation is None and status != 404:
        return [f"no operation {method} {raw_path} is described, so only 404 can answer it"]
    documented = operation.response(status) if operation else None
    if documented is None and not 400 <= status < 500:
        return [f"status {status} is not described for {method} {raw_path}"]
    schema = _json_content(documented or {})
    if documented and schema is None:
        return [f"status {status} is described without a body"] if body else []
    return [
        *_link_violations(headers),
        *_json_violations("response body", headers, body, schema or {}),
        *(_error_form_violations(status, body) if status >= 400 else ()),
    ]


def _path_violations(operation: Operation) -> Iterator[str]:
    for parameter in operation.parameters("path"):
        value = operation.path_values[parameter["name"]]
        pattern = r"[1-9]\d*" if parameter["schema"]["type"] == "integer" else DOCUMENTED_NAME
        if not re.fullmatch(pattern, value):
            yield f"path: {parameter['name']} is {value!r}"


def _query_violations(operation: Operation, query: str) -> Iterator[str]:
    described = {parameter["name"]: parameter for parameter in operation.parameters("query")}
    given = parse_qsl(query, keep_blank_values=True)
    for name, value in given:
        if name not in described:
            yield f"query: {name} is not described"
        elif described[name]["schema"]["type"] == "integer" and not re.fullmatch(
            r"[1-9]\d*", value
        ):
            yield f"query: {name} is {value!r}, not a positive integer"
        elif name == "per_page" and int(value) > PER_PAGE_MAX:
            yield f'query: per_page is {value} ("max {PER_PAGE_MAX}")'
    if len({name for name, _ in given}) < len(given):
        yield "query: a parameter is given twice"


def _header_violations(headers: Headers) -> Iterator[str]:
    if not _header(headers, "user-agent"):
        yield 'headers: no user-agent ("all API requests must include a valid User-Agent header")'
    if not _header(headers, "authorization"):
        yield "headers: no authorization"
    for media_type in (_header(headers, "accept") or "*/*").split(","):
        if not ACCEPTED_MEDIA_TYPE.fullmatch(media_type.partition(";")[0].strip()):
            yield f"headers: accept names {media_type.strip()!r}"
    version = _header(headers, "x-github-api-version")
    if version is not None and not API_VERSION.fullmatch(version):
        yield f"headers: x-github-api-version is {version!r}"


def _request_body_violations(operation: Operation, headers: Headers, body: bytes) -> Iterator[str]:
    described = operation.definition.get("requestBody")
    if described is None:
        if body:
            yield "request body: none is described"
        return
    if not body and not described["required"]:
        return
    schema = _json_content(described) or {}
    yield from _json_violations("request body", headers, body, schema, closed=True)
    if operation.definition["operationId"] == "pulls/create-review":
        yield from _review_violations(_parsed(body))


def _review_violations(review: object) -> Iterator[str]:
    if not isinstance(review, dict) or review.get("event") not in ("COMMENT", "REQUEST_CHANGES"):
        return
    if not review.get("body"):
        yield 'request body: no body ("Required when using REQUEST_CHANGES or COMMENT")'


def _json_violations(
    place: str, headers: Headers, body: bytes, schema: JsonObject, *, closed: bool = False
) -> Iterator[str]:
    media_type = (_header(headers, "content-type") or "").partition(";")[0].strip()
    if media_type != "application/json":
        yield f"{place}: content-type is {media_type!r}, not application/json"
    try:
        value = json.loads(body, object_pairs_hook=_without_duplicates)
    except ValueError as error:
        yield f"{place}: not JSON: {error}"
        return
    judge = Draft202012Validator(json_schema(schema, closed=closed), format_checker=FORMATS)
    for violation in judge.iter_errors(value):
        yield f"{place}: {violation.json_path}: {violation.message}"


def _error_form_violations(status: int, body: bytes) -> Iterator[str]:
    error = _parsed(body)
    fields = error if isinstance(error, dict) else {}
    for name in ("message", "documentation_url"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            yield f"error form: {name} is {fields.get(name)!r}"
    if fields.get("status") != str(status):
        yield f"error form: status is {fields.get('status')!r}, answered was {status}"


def _link_violations(headers: Headers) -> Iterator[str]:
    for link in (_header(headers, "link") or "").split(", "):
        if link and not LINK.fullmatch(link):
            yield f"headers: link has {link!r}"


def _json_content(described: JsonObject) -> JsonObject | None:
    content = described.get("content", {}).get("application/json")
    schema: JsonObject | None = content["schema"] if content else None
    return schema


def _header(headers: Headers, name: str) -> str | None:
    return next((value for key, value in headers if key.lower() == name), None)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None  # that it is no JSON is reported where the schema is checked


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a field is given twice")
    return dict(pairs)
