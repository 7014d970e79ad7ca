"""Two kinds of import contract that import-linter lacks: both are closed to what nobody foresaw."""

import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from grimp import DetailedImport, ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class OnlyContract(Contract):
    """The modules import nothing but the standard library, themselves and what is allowed.

    Both options are patterns in which `*` stands for anything, dots included.
    """

    type_name = "only"

    modules = fields.ListField(subfield=fields.StringField())
    allowed = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001 - inherited
        """Looks at every direct import of the modules."""
        sources = _matching(graph.modules, _patterns(self.modules))
        allowed = [*_patterns(self.allowed), *_patterns(self.modules)]
        return _verdict(
            found
            for source in sources
            for found in _imports(graph, source)
            if found["imported"].partition(".")[0] not in sys.stdlib_module_names
            and not _matches(found["imported"], allowed)
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints each import that is not allowed, with its place."""
        _render(check)


class HomesContract(Contract):
    """The modules are imported nowhere but in their homes. Options as in OnlyContract."""

    type_name = "homes"

    modules = fields.ListField(subfield=fields.StringField())
    homes = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001 - inherited
        """Looks at every direct import of the modules."""
        imported = _patterns(self.modules)
        homes = _patterns(self.homes)
        return _verdict(
            found
            for source in sorted(graph.modules)
            if not _matches(source, [*homes, *imported])
            for found in _imports(graph, source)
            if _matches(found["imported"], imported)
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints each import outside a home, with its place."""
        _render(check)


def _patterns(option: object) -> list[str]:
    assert isinstance(option, list)
    return [str(pattern) for pattern in option]


def _matches(module: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns)


def _matching(modules: Iterable[str], patterns: list[str]) -> list[str]:
    return sorted(module for module in modules if _matches(module, patterns))


def _imports(graph: ImportGraph, source: str) -> Iterator[DetailedImport]:
    for imported in sorted(graph.find_modules_directly_imported_by(source)):
        yield from graph.get_import_details(importer=source, imported=imported)


def _verdict(found: Iterable[DetailedImport]) -> ContractCheck:
    broken = list(found)
    return ContractCheck(kept=not broken, metadata={"broken": broken})


def _render(check: ContractCheck) -> None:
    for found in check.metadata["broken"]:
        output.print_error(
            f"- {found['importer']} imports {found['imported']} (l. {found['line_number']})",
            bold=False,
        )
