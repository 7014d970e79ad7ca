"""Typed access to a body's fields: what is absent may be, what is there must be right."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from services.ingress.body_rules import (
    LIST_ITEMS_MAX,
    TEXT_CHARACTERS_MAX,
    MalformedError,
    storable,
)

INT64_MAX = 2**63 - 1
YEAR_MIN = 1970
YEAR_MAX = 9998
"""Years that Python and PostgreSQL can both hold in every time zone."""

_UTC = " UTC"
_COMMIT = re.compile(r"(?!0+\Z)([0-9a-f]{40}|[0-9a-f]{64})")

T = TypeVar("T")


class Fields:
    """Typed access to a JSON object; every path it names begins at the body's root.

    A field that is absent or null is None where it may be; one of another type is MalformedError.
    """

    __slots__ = ("_document", "_name", "_outer")

    def __init__(
        self, document: dict[str, object], name: str = "", outer: "Fields | None" = None
    ) -> None:
        self._document = document
        self._name = name
        self._outer = outer

    def path(self, name: str) -> str:
        """Full path of a field."""
        return name if self._outer is None else f"{self._outer.path(self._name)}.{name}"

    def optional_object(self, name: str) -> "Fields | None":
        """An object inside, or None."""
        value = self._document.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise MalformedError(self.path(name), "must be an object")
        return Fields(value, name, self)

    def object(self, name: str) -> "Fields":
        """An object inside."""
        value = self._document.get(name)
        # What is right is told first: this is half of what reading a body costs.
        if isinstance(value, dict):
            return Fields(value, name, self)
        return self._required(name, self.optional_object(name))

    def objects(self, name: str) -> "list[Fields]":
        """The objects of a list, which may be absent; a list is looked at up to a limit."""
        value = self._document.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise MalformedError(self.path(name), "must be a list")
        items = {str(n): item for n, item in enumerate(value[:LIST_ITEMS_MAX])}
        return [Fields(items, name, self).object(n) for n in items]

    def before_and_now(self, name: str) -> "tuple[list[Fields], list[Fields]]":
        """A change of a list of objects: `previous` and `current`, or both in a list themselves."""
        value = self._document.get(name)
        if isinstance(value, list):
            value = dict(zip(("previous", "current"), value, strict=False))
        change = Fields({name: value}, self._name, self._outer).optional_object(name) or Fields({})
        return change.objects("previous"), change.objects("current")

    def optional_text(self, name: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str | None:
        """Text for people, made storable and cut, or None."""
        value = self._document.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise MalformedError(self.path(name), "must be text")
        return storable(value, characters_max)

    def text(self, name: str, characters_max: int) -> str:
        """Text that names something: not empty, never cut."""
        value = self._required(name, self.optional_text(name, characters_max + 1))
        if not 1 <= len(value) <= characters_max:
            raise MalformedError(self.path(name), f"must have 1 to {characters_max} characters")
        return value

    def optional_flag(self, name: str) -> bool | None:
        """True, false or None."""
        value = self._document.get(name)
        if value is not None and not isinstance(value, bool):
            raise MalformedError(self.path(name), "must be true or false")
        return value

    def optional_number(self, name: str) -> int | None:
        """A positive number of at most 64 bits, or None (X5)."""
        value = self._document.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= INT64_MAX:
            raise MalformedError(self.path(name), "must be a whole number from 1 to 2^63 - 1")
        return value

    def optional_level(self, name: str) -> int | None:
        """A whole number that may be 0, or None."""
        value = self._document.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise MalformedError(self.path(name), "must be a whole number")
        return value

    def number(self, name: str) -> int:
        """A positive number of at most 64 bits."""
        value = self._document.get(name)
        if type(value) is int and 0 < value <= INT64_MAX:
            return value
        return self._required(name, self.optional_number(name))

    def optional_commit(self, name: str) -> str | None:
        """A full commit id, or None."""
        return self._parsed(name, _commit, "must be a commit: 40 or 64 lower-case hex digits")

    def commit(self, name: str) -> str:
        """A full commit id."""
        return self._required(name, self.optional_commit(name))

    def optional_instant(self, name: str) -> datetime | None:
        """A point in time with its offset, or None."""
        return self._parsed(name, _instant, "must be a time with its offset, in ISO 8601")

    def _parsed(self, name: str, parse: Callable[[str], T | None], sentence: str) -> T | None:
        value = self._document.get(name)
        if value is None:
            return None
        parsed = parse(value) if isinstance(value, str) else None
        if parsed is None:
            raise MalformedError(self.path(name), sentence)
        return parsed

    def _required(self, name: str, value: T | None) -> T:
        if value is None:
            raise MalformedError(self.path(name), "is missing")
        return value


def _commit(text: str) -> str | None:
    return text if _COMMIT.fullmatch(text) else None


def _instant(text: str) -> datetime | None:
    # Older GitLabs write it out: 2017-12-10 17:01:11 UTC.
    if text.endswith(_UTC):
        text = text.removesuffix(_UTC) + "Z"
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    dated = instant.utcoffset() is not None and YEAR_MIN <= instant.year <= YEAR_MAX
    return instant if dated else None
