"""docs/configuration.md: every setting of every service, from the classes that read them."""

from collections.abc import Iterator
from importlib import import_module

import annotated_types
from fencepost.environment import VARIABLES, Variable
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from services.command_settings import BootstrapSettings, MigrateSettings, SuiteSettings
from shared.environment import COMMON_PREFIX, FILE_SUFFIX, AlsoRead, description, is_secret
from shared.settings import OwnField, RuntimeSettings

SERVICES = ("ingress", "dispatcher", "publisher", "watchdog")
COMMANDS: dict[str, type[BaseSettings]] = {
    "python -m services": SuiteSettings,
    "python -m services migrate": MigrateSettings,
    "python -m services bootstrap": BootstrapSettings,
}
CLIENTS = """\
## Worker and CLI

What `Worker.from_environment` of the SDK and the command line read; an option wins over its
variable. Services leave these alone.

| variable | read by | option | default | meaning |
|---|---|---|---|---|"""
BAR = "\\|"
HEAD = "| variable | default | bounds | meaning |\n|---|---|---|---|"
OPENING = f"""\
# Configuration

Everything is read from environment variables, once, at start; a wrong one, or one with a prefix of
ours that is no setting, is said in a sentence and ends the process. Units stand in the names:
`_ms`, `_bytes`. A secret may stand in a file: the same name with `{FILE_SUFFIX}` names it. Where
traffic goes without TLS, `SERVE_PLAINTEXT` is what a server may do and `CALL_PLAINTEXT` what a
client may. Written by `make docs` from the settings of the code.

## Common to all services

Set for one service with that service's prefix, e.g. `DISPATCHER_LOG_LEVEL`, or for all with
`{COMMON_PREFIX}`; a service's own wins.
"""


def page() -> str:
    """The whole page."""
    parts = [OPENING, HEAD]
    for name, info in RuntimeSettings.model_fields.items():
        if not _is_own(info):
            parts.append(_row(RuntimeSettings, name, COMMON_PREFIX))
    for service in SERVICES:
        settings = settings_of(service)
        parts += ["", f"## {service}", "", (settings.__doc__ or "").strip(), "", HEAD]
        parts += _own_rows(settings, f"{service.upper()}_")
    for command, told in COMMANDS.items():
        parts += ["", f"## `{command}`", "", (told.__doc__ or "").strip(), "", HEAD]
        parts += [_row(told, name, "") for name in told.model_fields]
    parts += ["", CLIENTS, *map(_client_row, VARIABLES)]
    return "\n".join(parts) + "\n"


def settings_of(service: str) -> type[RuntimeSettings]:
    """The one class of the service that reads variables with its prefix."""
    module = import_module(f"services.{service}.settings")
    (found,) = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, RuntimeSettings)
        and kind.model_config.get("env_prefix") == f"{service.upper()}_"
    ]
    return found


def _own_rows(settings: type[RuntimeSettings], prefix: str) -> Iterator[str]:
    for name, info in settings.model_fields.items():
        if name not in RuntimeSettings.model_fields or _is_own(info):
            yield _row(settings, name, prefix)


def _is_own(info: FieldInfo) -> bool:
    return any(isinstance(mark, OwnField) for mark in info.metadata)


def _row(settings: type[BaseSettings], name: str, prefix: str) -> str:
    info = settings.model_fields[name]
    names = [prefix + name.upper()]
    if is_secret(info):
        names.append(names[0] + FILE_SUFFIX)
    names += [mark.variable for mark in info.metadata if isinstance(mark, AlsoRead)]
    shown = " or ".join(f"`{variable}`" for variable in names)
    cells = [shown, _default(info), _bounds(info), description(settings, name)]
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def _client_row(variable: Variable) -> str:
    readers = {"worker": variable.worker, "CLI": variable.command_line}
    cells = [
        f"`{variable.name}`",
        ", ".join(name for name, reads in readers.items() if reads),
        f"`{variable.option}`" if variable.option else "",
        variable.default or "not set",
        variable.meaning,
    ]
    return f"| {' | '.join(cells)} |"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "must be set"
    if info.default is PydanticUndefined:
        return "of this machine"
    return "not set" if info.default in (None, "", ()) else f"`{_literal(info.default)}`"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _bounds(info: FieldInfo) -> str:
    low = [f"from {mark.ge}" for mark in info.metadata if isinstance(mark, annotated_types.Ge)]
    high = [f"to {mark.le}" for mark in info.metadata if isinstance(mark, annotated_types.Le)]
    return " ".join(low + high)
