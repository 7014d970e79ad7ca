"""Statements: written with SQLAlchemy Core, or as SQL where the SQL is the design; compiled once.

What is constant in a Core expression, a state above all, is rendered inline: a plan can use a
partial index only through a literal. What is named with `bindparam("name")` is passed at each call.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import BindParameter, Insert
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import ClauseElement, Executable

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


def statement(core: Executable | str) -> Statement:
    """Compiles a Core expression, or takes SQL in psycopg's style (`%(name)s`, `%%` for a percent).

    Raises sqlalchemy.exc.CompileError for a constant that has no literal form.
    """
    if isinstance(core, str):
        return Statement(core)
    expression = _only_as_written(core)
    compiled = expression.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return Statement(str(compiled))


def _only_as_written(core: Executable) -> ClauseElement:
    """An INSERT would return its primary key unasked, which takes the right to read it."""
    if isinstance(core, Insert):
        return core.inline()
    assert isinstance(core, ClauseElement), f"not an expression: {core!r}"
    return core


class _Compiler(PGCompiler_psycopg):
    def visit_bindparam(
        self, bindparam: BindParameter[object], *args: object, **options: object
    ) -> str:
        if not bindparam.required:
            options["literal_binds"] = True
        render: Callable[..., str] = super().visit_bindparam
        return render(bindparam, *args, **options)


class _Dialect(PGDialect_psycopg):
    statement_compiler = _Compiler
    supports_statement_cache = False


_new_dialect: Callable[[], Dialect] = _Dialect
_DIALECT = _new_dialect()


def _numbered(match: re.Match[str], names: dict[str, int], text: str) -> str:
    name = match["name"]
    if name is not None:
        return f"${names.setdefault(name, len(names) + 1)}"
    if match["stray"] is not None:
        raise ValueError(f"write %% for a percent sign, or %(name)s: {text}")
    return "%"
