"""The judge passes what GitHub publishes as examples and finds what is planted."""

import json
from collections.abc import Iterator

import pytest

from tests.published.github.description import JsonObject, description, resolved
from tests.published.github.validator import validate_request, validate_response

HEADERS = [
    ("content-type", "application/json; charset=utf-8"),
    ("user-agent", "tests"),
    ("authorization", "sha256:0"),
    ("accept", "application/vnd.github.v3+json"),
]
REVIEWS = "/repos/octocat/Hello-World/pulls/12/reviews"
COMMENTS = "/repos/octocat/Hello-World/issues/12/comments"
PULL = "/repos/octocat/Hello-World/pulls/12"
PUBLISHED_FLAWS = {PULL: ["response body: $.requested_teams[0]: 'type' is a required property"]}


def _operations() -> Iterator[tuple[str, str, JsonObject]]:
    for template, methods in description()["paths"].items():
        path = template.replace("{owner}", "octocat").replace("{repo}", "Hello-World")
        path = path.replace("{pull_number}", "12").replace("{issue_number}", "12")
        for method, definition in methods.items():
            yield method.upper(), path, definition


def _examples(described: JsonObject) -> list[bytes]:
    content = described.get("content", {}).get("application/json", {})
    examples = content.get("examples", {}).values()
    return [json.dumps(resolved(example)["value"]).encode() for example in examples]


def test_every_published_request_passes() -> None:
    judged = [
        validate_request(method, path, HEADERS, body)
        for method, path, definition in _operations()
        for body in _examples(definition.get("requestBody", {}))
    ]

    assert judged == [[], []]


def test_every_published_answer_passes() -> None:
    judged = [
        (path, validate_response(method, path, int(status), HEADERS, body))
        for method, path, definition in _operations()
        for status, described in definition["responses"].items()
        for body in _examples(resolved(described))
    ]

    assert len(judged) == 8
    for path, violations in judged:
        assert violations == PUBLISHED_FLAWS.get(path, [])


def _without(name: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value in HEADERS if key != name]


def _with(name: str, value: str) -> list[tuple[str, str]]:
    return [*_without(name), (name, value)]


GOOD = {"event": "COMMENT", "body": "Looks right.", "commit_id": "0" * 40}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", REVIEWS),
        ("GET", f"{REVIEWS}?per_page=100&page=2"),
        ("GET", PULL),
        ("GET", f"{COMMENTS}?since=2024-01-01T00:00:00Z"),
        ("GET", "/user"),
    ],
)
def test_a_right_reading_passes(method: str, path: str) -> None:
    assert validate_request(method, path, _without("content-type"), b"") == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", []),
        (b"{", ["not JSON"]),
        (b"\xff", ["not JSON"]),
        (b'{"event": "APPROVE", "event": "APPROVE"}', ["given twice"]),
        (b"[]", ["is not of type 'object'"]),
        (GOOD | {"event": "APPROVED"}, ["'APPROVED' is not one of"]),
        (GOOD | {"body": None}, ["None is not of type 'string'", "no body"]),
        (GOOD | {"body": ""}, ['no body ("Required when using']),
        ({"event": "REQUEST_CHANGES"}, ["no body"]),
        (GOOD | {"commit_sha": "0" * 40}, ["'commit_sha' was unexpected"]),
        (GOOD | {"comments": [{"path": "a"}]}, ["'body' is a required property"]),
        (GOOD | {"comments": [{"path": "a", "body": "b", "line": "3"}]}, ["comments[0].line"]),
        (GOOD | {"comments": [{"path": "a", "body": "b", "lines": 3}]}, ["'lines' was unexp"]),
        (GOOD | {"comments": [{"path": "a", "body": "b", "line": True}]}, ["comments[0].line"]),
    ],
)
def test_planted_faults_in_a_reviews_body_are_found(body: object, found: list[str]) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    violations = validate_request("POST", REVIEWS, HEADERS, content)

    assert len(violations) == len(found)
    for violation, words in zip(violations, found, strict=True):
        assert words in violation


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("POST", "/repos/octocat/Hello-World/pulls/12/review", "no operation"),
        ("PUT", REVIEWS, "no operation"),
        ("POST", f"{REVIEWS}/", "no operation"),
        ("POST", f"/api/v3{REVIEWS}", "no operation"),
        ("POST", REVIEWS.replace("12", "twelve"), "pull_number is 'twelve'"),
        ("POST", REVIEWS.replace("12", "0"), "pull_number is '0'"),
        ("POST", REVIEWS.replace("octocat", "octo%2Fcat"), "owner is"),
        ("POST", f"{REVIEWS}?draft=true", "draft is not described"),
    ],
)
def test_planted_faults_in_the_path_are_found(method: str, path: str, found: str) -> None:
    (violation,) = validate_request(method, path, HEADERS, json.dumps(GOOD).encode())

    assert found in violation


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("per_page=101", "max 100"),
        ("per_page=0", "not a positive integer"),
        ("page=two", "not a positive integer"),
        ("cursor=abc", "cursor is not described"),
        ("page=1&page=2", "given twice"),
    ],
)
def test_planted_faults_in_a_query_are_found(query: str, found: str) -> None:
    (violation,) = validate_request("GET", f"{REVIEWS}?{query}", HEADERS, b"")

    assert found in violation


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (_without("user-agent"), "no user-agent"),
        (_without("authorization"), "no authorization"),
        (_with("accept", "text/html"), "accept names 'text/html'"),
        (_with("accept", "application/json, application/xml"), "'application/xml'"),
        (_with("x-github-api-version", "v3"), "x-github-api-version is 'v3'"),
        (_with("content-type", "application/x-www-form-urlencoded"), "content-type is"),
        (_without("content-type"), "content-type is ''"),
    ],
)
def test_planted_faults_in_the_headers_are_found(
    headers: list[tuple[str, str]], found: str
) -> None:
    (violation,) = validate_request("POST", REVIEWS, headers, json.dumps(GOOD).encode())

    assert found in violation


@pytest.mark.parametrize(
    ("method", "path", "body", "found"),
    [
        ("POST", COMMENTS, b"", "not JSON"),
        ("POST", COMMENTS, b"{}", "'body' is a required property"),
        ("GET", COMMENTS, b"{}", "none is described"),
    ],
)
def test_planted_faults_in_other_bodies_are_found(
    method: str, path: str, body: bytes, found: str
) -> None:
    (violation,) = validate_request(method, path, HEADERS, body)

    assert found in violation


def _published_review() -> JsonObject:
    example: JsonObject = description()["components"]["examples"]["pull-request-review"]["value"]
    return example


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"id": "80"}, "$.id"),
        ({"user": {"login": "octocat"}}, "$.user"),
        ({"submitted_at": "yesterday"}, "'yesterday' is not a 'date-time'"),
        ({"html_url": "octocat"}, "'octocat' is not a 'uri'"),
        ({"author_association": "FRIEND"}, "'FRIEND' is not one of"),
    ],
)
def test_planted_faults_in_an_answer_are_found(change: JsonObject, found: str) -> None:
    body = json.dumps(_published_review() | change).encode()

    violations = validate_response("POST", REVIEWS, 200, HEADERS, body)

    assert violations
    assert all(found in violation for violation in violations)


def test_what_the_description_allows_to_be_null_may_be() -> None:
    body = json.dumps(_published_review() | {"commit_id": None, "user": None}).encode()

    assert validate_response("POST", REVIEWS, 200, HEADERS, body) == []


ERROR = {"message": "Not Found", "documentation_url": "https://docs.github.com", "status": "404"}


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (201, _published_review(), "status 201 is not described"),
        (502, ERROR, "status 502 is not described"),
        (404, ERROR | {"status": 404}, "status is 404"),
        (404, ERROR | {"message": ""}, "message is ''"),
        (401, {"message": "Bad", "status": "401"}, "documentation_url is None"),
        (422, ERROR | {"status": "422", "errors": [{"code": "custom"}]}, "$.errors[0]"),
    ],
)
def test_planted_faults_in_a_status_or_error_form_are_found(
    status: int, body: object, found: str
) -> None:
    (violation,) = validate_response("POST", REVIEWS, status, HEADERS, json.dumps(body).encode())

    assert found in violation


def test_a_planted_broken_link_header_is_found() -> None:
    headers = [*HEADERS, ("link", "</reviews?page=2>; rel=next")]

    (violation,) = validate_response("GET", REVIEWS, 200, headers, b"[]")

    assert "link has" in violation


def test_only_404_answers_what_is_not_described() -> None:
    body = json.dumps(ERROR).encode()

    assert validate_response("GET", "/nowhere", 404, HEADERS, body) == []
    assert validate_response("GET", "/nowhere", 200, HEADERS, b"{}") != []
