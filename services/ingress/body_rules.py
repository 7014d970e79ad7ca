"""Reads bodies: what is valid JSON, which of two keys counts, what a database can store.

The raw bytes are kept as they came (I10); this is how everything derived from them is read:

- UTF-8, with or without a byte order mark; JSON, or a form whose only `payload` field is JSON.
- NaN and Infinity are not JSON. A key that stands twice: the last one counts.
- Numbers are kept whatever their size; one that is used as an id must fit 64 bits.
- Nesting has a limit, which is the interpreter's: some hundreds of levels, where a forge uses ten.
- Of a long list in a large body only the beginning is kept, which is all that anybody looks at.
- Text that is stored has U+0000 and halves of surrogate pairs replaced by U+FFFD, leaf by leaf.
"""

import json
import re
from typing import NoReturn
from urllib.parse import parse_qsl

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
FORM_FIELD = "payload"
FORM_FIELDS_MAX = 100
NUMBER_DIGITS_MAX = 40
"""A longer number fits no field, so its value is not needed."""

TEXT_CHARACTERS_MAX = 1000
LIST_ITEMS_MAX = 100
"""A list is looked at up to here."""

SKIMMED_CHARACTERS = 256 * 1024
SKIMMED_LEVELS = 8

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_BLANKS = re.compile(r"[ \t\n\r]*")
_WORD = re.compile("[!-~]+")
_REPLACEMENT = "\ufffd"


class MalformedError(Exception):
    """A body breaks a rule: the path of the field in it, and what the field must be."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}")
        self.field = field
        self.sentence = sentence


class HugeNumber:
    """An integer with more digits than any field can hold."""


def read_document(body: bytes, content_type: str) -> dict[str, object]:
    """The JSON object that a body carries; raises MalformedError."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    if media_type == FORM:
        return _read_json(_form_payload(body), FORM_FIELD)
    if media_type == JSON or media_type.endswith("+json"):
        return _read_json(_text(body), "body")
    raise MalformedError("content_type", f"must be {JSON} or {FORM}")


def storable(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """The text as a database can store it, cut to a length."""
    kept = text[:characters_max]
    if kept.isascii() and "\0" not in kept:
        return kept
    return _UNSTORABLE.sub(_REPLACEMENT, kept)


def is_storable(text: str) -> bool:
    """Whether a database can store the text as it is."""
    return _UNSTORABLE.search(text) is None


def check_word(field: str, text: str) -> None:
    """Raises MalformedError unless the text is visible ASCII without blanks."""
    if not _WORD.fullmatch(text):
        raise MalformedError(field, "must be visible ASCII without blanks")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MalformedError("body", "must be UTF-8") from None


def _form_payload(body: bytes) -> str:
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=FORM_FIELDS_MAX,
        )
    except ValueError:
        raise MalformedError(
            "body", f"must be a form of at most {FORM_FIELDS_MAX} fields, as its content type says"
        ) from None
    payloads = [value for name, value in fields if name == FORM_FIELD]
    if len(payloads) != 1:
        raise MalformedError(FORM_FIELD, f"must stand in the form once, not {len(payloads)} times")
    return payloads[0]


def _read_json(text: str, where: str) -> dict[str, object]:
    try:
        document = _decoded(text)
    except RecursionError:
        raise MalformedError(where, "is nested too deeply") from None
    except ValueError as error:
        at = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise MalformedError(where, f"must be JSON; it is not{at}") from None
    if not isinstance(document, dict):
        raise MalformedError(where, "must be a JSON object")
    return document


def _integer(digits: str) -> int | HugeNumber:
    return int(digits) if len(digits) <= NUMBER_DIGITS_MAX else HugeNumber()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_no_constant)


def _decoded(text: str) -> object:
    """The value of a whole text; raises ValueError, RecursionError."""
    if len(text) < SKIMMED_CHARACTERS:
        document: object = _DECODER.decode(text)
        return document
    document, end = _skim(text, _past_blanks(text, 0), SKIMMED_LEVELS)
    if (end := _past_blanks(text, end)) != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return document


def _skim(text: str, at: int, levels: int) -> tuple[object, int]:
    """The value that begins here, and where it ends: each item of a list by itself.

    As objects a body takes twenty times the memory that it takes as text.
    """
    if levels and text.startswith("{", at):
        return _skim_object(text, at + 1, levels)
    if levels and text.startswith("[", at):
        return _skim_list(text, at + 1)
    value: tuple[object, int] = _DECODER.raw_decode(text, at)
    return value


def _skim_object(text: str, at: int, levels: int) -> tuple[dict[str, object], int]:
    members: dict[str, object] = {}
    at = _past_blanks(text, at)
    while not text.startswith("}", at):
        if members:
            at = _past(",", text, at)
        if not text.startswith('"', at):
            raise json.JSONDecodeError("Expecting a name", text, at)
        name, at = _DECODER.raw_decode(text, at)
        at = _past(":", text, _past_blanks(text, at))
        members[name], at = _skim(text, at, levels - 1)
        at = _past_blanks(text, at)
    return members, at + 1


def _skim_list(text: str, at: int) -> tuple[list[object], int]:
    items: list[object] = []
    at = _past_blanks(text, at)
    while not text.startswith("]", at):
        if items:
            at = _past(",", text, at)
        item, at = _DECODER.raw_decode(text, at)
        if len(items) < LIST_ITEMS_MAX:
            items.append(item)
        at = _past_blanks(text, at)
    return items, at + 1


def _past(mark: str, text: str, at: int) -> int:
    """The place of what follows a mark; raises ValueError where it does not stand."""
    if not text.startswith(mark, at):
        raise json.JSONDecodeError(f"Expecting {mark}", text, at)
    return _past_blanks(text, at + 1)


def _past_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    assert blanks is not None, "none is some"
    return blanks.end()
