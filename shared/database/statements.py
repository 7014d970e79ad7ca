"""Statements: SQL with named parameters, compiled once for the wire."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy.sql import Executable

_PLACEHOLDER = re.compile(r"%(?:%|\((?P<name>[A-Za-z_]\w*)\)s|(?P<stray>.?))", re.DOTALL)


class ParametersWrongError(TypeError):
    """A statement was given other parameters than it names."""


class Statement:
    """SQL text with `%(name)s` parameters, and the same numbered for the wire."""

    __slots__ = ("names", "numbered", "text")

    def __init__(self, text: str) -> None:
        names: dict[str, int] = {}
        numbered = _PLACEHOLDER.sub(lambda match: _numbered(match, names, text), text)
        self.text: Final = text
        self.names: Final = tuple(names)
        self.numbered: Final = numbered.encode()

    def values(self, parameters: Mapping[str, object]) -> list[object]:
        """The parameters in the order of `names`; raises ParametersWrongError on any other set."""
        if len(parameters) != len(self.names):
            raise self._wrong(parameters)
        try:
            return [parameters[name] for name in self.names]
        except KeyError:
            raise self._wrong(parameters) from None

    def _wrong(self, parameters: Mapping[str, object]) -> ParametersWrongError:
        missing = sorted(set(self.names) - set(parameters))
        unknown = sorted(set(parameters) - set(self.names))
        return ParametersWrongError(f"missing {missing}, unknown {unknown}: {self.text}")

    def __repr__(self) -> str:
        return f"Statement({self.text!r})"


def statement(core: "Executable | str") -> Statement:
    """Compiles a Core expression, or takes SQL in psycopg's style (`%(name)s`, `%%` for a percent).

    What is constant in an expression, a state above all, is rendered inline: a plan can use a
    partial index only through a literal. What is named with `bindparam("name")` is passed at each
    call. Raises sqlalchemy.exc.CompileError for a constant that has no literal form.
    """
    if isinstance(core, str):
        return Statement(core)
    # A service whose SQL is written out does not load SQLAlchemy: 15 MB and half a second.
    from shared.database.core import compiled  # noqa: PLC0415  (only where it is needed)

    return Statement(compiled(core))


def _numbered(match: re.Match[str], names: dict[str, int], text: str) -> str:
    name = match["name"]
    if name is not None:
        return f"${names.setdefault(name, len(names) + 1)}"
    if match["stray"] is not None:
        raise ValueError(f"write %% for a percent sign, or %(name)s: {text}")
    return "%"
