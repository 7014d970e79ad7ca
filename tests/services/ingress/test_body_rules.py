"""Bodies: every valid JSON is read or refused by name, and nothing unstorable comes out of it."""

import json
import tracemalloc
from urllib.parse import quote_plus, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingress.body_rules import (
    FORM,
    JSON,
    LIST_ITEMS_MAX,
    SKIMMED_CHARACTERS,
    HugeNumber,
    MalformedError,
    check_word,
    is_storable,
    read_document,
    storable,
)

PATIENT = settings(deadline=None, max_examples=60)
BLANKS = b" " * SKIMMED_CHARACTERS
"""In front of a body they make it a large one."""


def refused(body: bytes, content_type: str = JSON) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        read_document(body, content_type)
    return caught.value


@pytest.mark.parametrize(
    "content_type",
    ["", JSON, "Application/JSON ; charset=utf-8", "application/vnd.github.v3+json"],
)
def test_json_by_its_media_type(content_type: str) -> None:
    assert read_document(b'{"a": 1}', content_type) == {"a": 1}


def test_another_media_type_is_named() -> None:
    assert refused(b'{"a": 1}', "text/plain").field == "content_type"


@pytest.mark.guarantee("I10")
def test_a_form_reads_like_its_json_twin() -> None:
    document = {"title": "1 + 1 & café \U0001f389", "nested": {"percent": "100%"}}
    body = ("payload=" + quote_plus(json.dumps(document, ensure_ascii=False))).encode()
    assert read_document(body, FORM + "; charset=utf-8") == document


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "payload"),
        (b"other=1", "payload"),
        (b"payload=%7B%7D&payload=%7B%7D", "payload"),
        (b'{"action": "opened"}', "body"),
        (b"payload=%7B", "payload"),
        (b"payload=%5B%5D", "payload"),
        (b"payload=%FF%FE", "body"),
        ("payload={é}".encode(), "body"),
        (urlencode([("x", str(n)) for n in range(200)]).encode(), "body"),
    ],
)
def test_a_form_that_is_none_is_refused_by_name(body: bytes, field: str) -> None:
    assert refused(body, FORM).field == field


@pytest.mark.guarantee("I10", "X4")
@pytest.mark.parametrize("before", [b"", BLANKS], ids=["small", "large"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"a": 1,}',
        b'{"a": [1,]}',
        b'{"a": [1 2]}',
        b'{"a": [,]}',
        b'{"a": {1: 2}}',
        b'{"a": {"b" 2}}',
        b'{"a": {"b": }}',
        b'{"a": 1 "b": 2}',
        b'{,"a": 1}',
        b"{",
        b"[]",
        b"null",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1} trailing',
        '{"a": 1}'.encode("utf-16"),
        b'{"a": "\xff"}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
)
def test_what_is_not_a_json_object_is_refused(body: bytes, before: bytes) -> None:
    assert refused(before + body).field == "body"


@pytest.mark.guarantee("I10")
def test_json_that_surprises_is_read() -> None:
    digits = "9" * 5000
    body = f'\ufeff{{"n": {digits}, "x": 1e999, "a": 1, "a": 2, "s": "\\ud800\\u0000", "z": -0}}'
    document = read_document(body.encode(), JSON)
    assert isinstance(document.pop("n"), HugeNumber)
    assert document == {"x": float("inf"), "a": 2, "s": "\ud800\0", "z": 0}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@PATIENT
@given(
    st.dictionaries(st.text(), json_values, max_size=3),
    st.booleans(),
    st.sampled_from(["", BLANKS.decode()]),
)
def test_every_json_object_is_read_as_it_was_written(
    document: dict[str, object], as_form: bool, before: str
) -> None:
    text = before + json.dumps(document, allow_nan=True)
    body = ("payload=" + quote_plus(text)) if as_form else text
    if "Infinity" in text and float("inf") in _numbers(document):
        return
    assert read_document(body.encode(), FORM if as_form else JSON) == document


def _numbers(value: object) -> set[float]:
    if isinstance(value, dict):
        return set().union(*map(_numbers, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(_numbers, value), set())
    return {abs(value)} if isinstance(value, float) else set()


@pytest.mark.guarantee("I10")
def test_of_a_long_list_in_a_large_body_the_beginning_is_kept() -> None:
    lists = {"a": list(range(1000)), "b": {"c": [{"d": list(range(1000))}] * 1000}, "e": [[]]}
    document = read_document(BLANKS + json.dumps(lists).encode(), JSON)
    kept = [{"d": list(range(1000))}] * LIST_ITEMS_MAX
    assert document == {"a": list(range(LIST_ITEMS_MAX)), "b": {"c": kept}, "e": [[]]}


@pytest.mark.guarantee("I10")
def test_a_body_full_of_objects_takes_no_more_memory_than_its_text() -> None:
    item = {"id": 123456, "path": "a/b", "flag": True, "inner": {"a": 1, "b": [1, 2, 3]}}
    body = json.dumps({"commits": {"all": [item] * 50_000}}).encode()
    tracemalloc.start()
    try:
        read_document(body, JSON)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1.1 * len(body)


@PATIENT
@given(st.binary(max_size=200), st.sampled_from([JSON, FORM]))
def test_any_bytes_are_read_or_refused(body: bytes, content_type: str) -> None:
    try:
        read: object = read_document(body, content_type)
    except MalformedError as malformed:
        read = malformed.field
    assert isinstance(read, dict) or read in {"body", "payload"}


@PATIENT
@given(st.text(alphabet=st.characters(codec=None)))
def test_storable_text_keeps_what_can_be_kept(text: str) -> None:
    kept = storable(text, 10_000)
    assert len(kept) == len(text)
    assert is_storable(kept)
    kept.encode()
    assert all(
        a == b or (b == "\ufffd" and not is_storable(a)) for a, b in zip(text, kept, strict=True)
    )


@pytest.mark.guarantee("I10")
def test_text_that_only_looks_like_nul_is_kept() -> None:
    document = read_document(rb'{"path": "C:\\u0000", "real": "a\u0000b"}', JSON)
    assert storable(str(document["path"])) == r"C:\u0000"
    assert storable(str(document["real"])) == "a\ufffdb"


@pytest.mark.parametrize("text", ["", " ", "a b", "é", "a\0", "a\n"])
def test_a_word_is_visible_ascii(text: str) -> None:
    with pytest.raises(MalformedError, match="event"):
        check_word("event", text)
    check_word("event", "pull_request")
