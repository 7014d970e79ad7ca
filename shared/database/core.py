"""Renders SQLAlchemy Core expressions to SQL: constants inline, parameters by name."""

from collections.abc import Callable

from sqlalchemy import BindParameter, Insert
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import ClauseElement, Executable


def compiled(core: Executable) -> str:
    """The SQL, with `%(name)s` parameters. Raises sqlalchemy.exc.CompileError."""
    expression = _only_as_written(core)
    options = {"render_postcompile": True}
    return str(expression.compile(dialect=_DIALECT, compile_kwargs=options))


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
