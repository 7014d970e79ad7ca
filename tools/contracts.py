"""Kinds of import contract that import-linter lacks: closed to what nobody foresaw."""

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

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - inherited
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

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - inherited
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


class RoomsContract(Contract):
    """Inside each service, imports go from higher rooms to lower ones.

    A module's room is the first part of its name, below the service, that matches a pattern; so a
    feature's folder may repeat the rooms. `|` parts rooms of one height, which do not know each
    other; blanks part the patterns of one room. A module in no room is seen through: what it
    imports counts for whoever imports it.
    """

    type_name = "rooms"

    services = fields.ListField(subfield=fields.StringField())
    rooms = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - inherited
        """Looks at every import within a service, through modules in no room."""
        heights = [[room.split() for room in row.split("|")] for row in _patterns(self.rooms)]
        services = _patterns(self.services)
        places = {
            module: _place(module, service, heights)
            for service in services
            for module in (service, *graph.find_descendants(service))
        }
        return _verdict(
            found
            for source, place in sorted(places.items())
            if place is not None
            for found in _seen_from(graph, source, places)
            if _goes_up(place, places[found["imported"]])
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints each import that goes up or sideways, with its place."""
        _render(check)


Place = tuple[int, int] | None


def _place(module: str, service: str, heights: list[list[list[str]]]) -> Place:
    for part in module.removeprefix(service).split("."):
        for height, row in enumerate(heights):
            for side, patterns in enumerate(row):
                if _matches(part, patterns):
                    return height, side
    return None


def _seen_from(
    graph: ImportGraph, source: str, places: dict[str, Place]
) -> Iterator[DetailedImport]:
    """Imports by the source, and by the modules in no room that it reaches, of its service."""
    waiting, seen = [source], {source}
    while waiting:
        for found in _imports(graph, waiting.pop()):
            imported = found["imported"]
            if imported not in places:
                continue
            yield found
            if places[imported] is None and imported not in seen:
                seen.add(imported)
                waiting.append(imported)


def _goes_up(source: Place, imported: Place) -> bool:
    if source is None or imported is None:
        return False
    return imported[0] < source[0] or (imported[0] == source[0] and imported[1] != source[1])


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
