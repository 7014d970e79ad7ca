"""Reads a settings class from environment variables and says, in whole sentences, what is wrong.

A field `log_level` of a class with the prefix `DISPATCHER_` is looked up as `DISPATCHER_LOG_LEVEL`
and then, if all services have the field and it is no service's own, as `FENCEPOST_LOG_LEVEL`. For a
secret the same name with `_FILE` names a file that holds it. An empty variable counts as not set.
"""

import difflib
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.environment import VARIABLES
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings

COMMON_PREFIX = "FENCEPOST_"
FILE_SUFFIX = "_FILE"
SHOWN_VALUE_CHARACTERS_MAX = 80
SECRET_FILE_BYTES_MAX = 64 * 1024

# Kubernetes sets these in every pod for each Service of the namespace, ours included; a name that
# ends in _PORT alone is one of them only by its value.
SERVICE_LINK = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)=.*"
    r"|\w+_PORT=(tcp|udp|sctp)://.*"
)

OTHERS = frozenset(variable.name for variable in VARIABLES) | {"FENCEPOST_IMAGE"}
"""Variables of the common prefix that no service reads: a client's, and Compose's."""

S = typing.TypeVar("S", bound=BaseSettings)


@dataclass(frozen=True)
class OwnField:
    """Marks a field that differs per service, so that no FENCEPOST_ variable stands in for it."""


@dataclass(frozen=True)
class AlsoRead:
    """Marks a field that a variable with a name of its own may set, after all others."""

    variable: str


OWN = OwnField()


class SettingsError(Exception):
    """The environment does not make valid settings; `problems` has one sentence per variable."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass
class _Reading:
    values: dict[str, object] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read(settings_class: type[S], environment: Mapping[str, str]) -> S:
    """The settings that these variables make; raises SettingsError with every problem at once."""
    reading = _Reading()
    for name, info in settings_class.model_fields.items():
        _read_field(reading, settings_class, name, info, environment)
    reading.problems += _unknown(settings_class, environment)
    try:
        settings = settings_class.model_validate(reading.values)
    except ValidationError as invalid:
        unread = {name for name in reading.sources if name not in reading.values}
        reading.problems += [
            _sentence(settings_class, reading, error)
            for error in invalid.errors(include_url=False)
            if not (error["loc"] and error["loc"][0] in unread)
        ]
        raise SettingsError(reading.problems) from None
    if reading.problems:
        raise SettingsError(reading.problems)
    return settings


def variables(settings_class: type[BaseSettings], name: str) -> list[str]:
    """The variables that may set this field, the one that wins first."""
    info = settings_class.model_fields[name]
    prefixes = [settings_class.model_config.get("env_prefix", "")]
    if _is_common(settings_class, name):
        prefixes.append(COMMON_PREFIX)
    found = []
    for prefix in prefixes:
        found.append(prefix + name.upper())
        if is_secret(info):
            found.append(prefix + name.upper() + FILE_SUFFIX)
    return found + [mark.variable for mark in info.metadata if isinstance(mark, AlsoRead)]


def description(settings_class: type[BaseSettings], name: str) -> str:
    """What the field means; a subclass that changes only the default inherits the text."""
    for base in settings_class.__mro__:
        if issubclass(base, BaseSettings) and name in base.model_fields:
            text = base.model_fields[name].description
            if text:
                return text
    return ""


def is_secret(info: FieldInfo) -> bool:
    """Whether the field's value is a secret: it may stand in a file and is never shown."""
    return any(kind is SecretStr for kind in _kinds(info.annotation))


def _kinds(annotation: object) -> Iterator[object]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _kinds(member)
    elif typing.get_origin(annotation) is typing.Annotated:
        yield from _kinds(typing.get_args(annotation)[0])
    else:
        yield annotation


def _read_field(
    reading: _Reading,
    settings_class: type[BaseSettings],
    name: str,
    info: FieldInfo,
    environment: Mapping[str, str],
) -> None:
    for variable in variables(settings_class, name):
        value = environment.get(variable, "")
        if not value:
            continue
        by_file = is_secret(info) and variable.endswith(FILE_SUFFIX)
        reading.sources[name] = variable
        if is_secret(info) and not by_file and environment.get(variable + FILE_SUFFIX):
            reading.problems.append(
                f"{variable} and {variable}{FILE_SUFFIX} are both set: keep one of them."
            )
        elif by_file:
            _read_secret_file(reading, name, variable, Path(value))
        else:
            reading.values[name] = _split(value) if _is_list(info) else value
        return


def _read_secret_file(reading: _Reading, name: str, variable: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_FILE_BYTES_MAX + 1)
        text = content.decode().rstrip("\r\n")
    except OSError as error:
        reading.problems.append(f"{variable}: {path} cannot be read: {error.strerror}.")
    except UnicodeDecodeError:
        reading.problems.append(f"{variable}: {path} is not UTF-8 text.")
    else:
        if not text:
            reading.problems.append(f"{variable}: {path} is empty.")
        elif len(content) > SECRET_FILE_BYTES_MAX:
            reading.problems.append(
                f"{variable}: {path} is larger than {SECRET_FILE_BYTES_MAX} bytes: not a secret."
            )
        else:
            reading.values[name] = text


def _is_list(info: FieldInfo) -> bool:
    return any(typing.get_origin(kind) is tuple for kind in _kinds(info.annotation))


def _split(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _is_common(settings_class: type[BaseSettings], name: str) -> bool:
    """Whether all services have the field: it stands in the class that has no prefix of its own."""
    shared_by_all = any(
        name in base.model_fields and not base.model_config.get("env_prefix")
        for base in settings_class.__mro__[1:]
        if issubclass(base, BaseSettings)
    )
    marks = settings_class.model_fields[name].metadata
    return shared_by_all and not any(isinstance(mark, OwnField) for mark in marks)


def _unknown(settings_class: type[BaseSettings], environment: Mapping[str, str]) -> Iterator[str]:
    of_service = settings_class.model_config.get("env_prefix", "")
    prefix: str = of_service or getattr(settings_class, "own_prefix", "")
    if not prefix:
        # Its variables cannot be told from everybody else's.
        return
    refused = (prefix, COMMON_PREFIX) if of_service else (prefix,)
    known = [v for name in settings_class.model_fields for v in variables(settings_class, name)]
    for variable in sorted(environment):
        if not variable.startswith(refused) or variable in known:
            continue
        if variable in OTHERS or SERVICE_LINK.fullmatch(f"{variable}={environment[variable]}"):
            continue
        nearest = _nearest(variable, prefix, known)
        hint = f"did you mean {nearest}?" if nearest else "see docs/configuration.md."
        yield f"{variable}: no such setting; {hint}"


def _nearest(variable: str, prefix: str, known: Sequence[str]) -> str:
    """The known name that was meant; empty when none is near. A prefix makes no name near."""
    own = prefix + variable.removeprefix(COMMON_PREFIX)
    if own in known:
        return own
    begins = prefix if variable.startswith(prefix) else COMMON_PREFIX
    names = [name.removeprefix(begins) for name in known if name.startswith(begins)]
    near = difflib.get_close_matches(variable.removeprefix(begins), names, n=1)
    return begins + near[0] if near else ""


def _sentence(settings_class: type[BaseSettings], reading: _Reading, error: ErrorDetails) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ").rstrip(".")
    info = settings_class.model_fields.get(name)
    if info is None:
        return f"{message}."
    about = description(settings_class, name)
    variable = reading.sources.get(name, variables(settings_class, name)[0])
    if error["type"] == "missing":
        other = f" or {variable}{FILE_SUFFIX}" if is_secret(info) else ""
        return f"{variable}{other} must be set. {about}"
    if is_secret(info) or name not in reading.values:
        return f"{variable} {message}. {about}"
    shown = str(reading.values[name])[:SHOWN_VALUE_CHARACTERS_MAX]
    return f"{variable} is {shown!r}, but {message}. {about}"
