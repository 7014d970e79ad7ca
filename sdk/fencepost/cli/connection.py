"""How a command reaches its service, and where the key comes from when none is named."""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Any, Final, NoReturn

import typer

from fencepost.cli import options
from fencepost.environment import (
    API_KEY,
    API_KEY_FILE,
    DEFAULT_ADDRESSES,
    INGRESS,
    PUBLISHER,
    TENANT,
    WATCHDOG,
    tls_files_of,
)
from fencepost.tls import CertificateUnreadableError, Tls

SERVICES: Final = {WATCHDOG: "the watchdog", INGRESS: "ingress", PUBLISHER: "the publisher"}
ADDRESSES: Final = {
    WATCHDOG: options.WatchdogAddress,
    INGRESS: options.IngressAddress,
    PUBLISHER: options.PublisherAddress,
}
OPERATOR_API_KEY: Final = "OPERATOR_API_KEY"
TENANT_NAMES: Final = f"--tenant or {TENANT}"
CHECKOUT_KEYS: Final = Path(".fencepost/keys.env")
KEY_FILE_BYTES_MAX = 64 * 1024
EXIT_USAGE = 2

NO_KEY = f"""\
No API key. Set {API_KEY}, or {API_KEY_FILE} to a file that holds it; or run this in a checkout
where `make run` has made {CHECKOUT_KEYS}."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CREDENTIAL = re.compile(r"fp_[a-z0-9]+_[A-Za-z0-9]+")


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How one command reaches its service; `variable` is the one that names its address."""

    variable: str
    address: str
    api_key: str = field(repr=False)
    key_source: str
    tenant: str | None
    tls: Tls | None
    plaintext: bool
    as_json: bool

    @property
    def service(self) -> str:
        """Name of the service, for people."""
        return SERVICES[self.variable]


def connected(variable: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the connection's options; it gets what they say as `connection`."""
    shared = _parameters(variable)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            _require_text(given)
            chosen = {each.name: given.pop(each.name) for each in shared}
            command(connection=_connection(variable, **chosen), **given)

        own = inspect.signature(command).parameters.values()
        _show_parameters(run, [*(each for each in own if each.name != "connection"), *shared])
        return run

    return decorate


def to_publisher(connection: Connection, address: str | None) -> Connection:
    """The publisher, with what reaches the other service."""
    where = _address(address or DEFAULT_ADDRESSES[PUBLISHER])
    return replace(connection, variable=PUBLISHER, address=where)


def usage_error(sentence: str) -> NoReturn:
    """Ends the command with exit code 2."""
    typer.echo(sentence, err=True)
    raise typer.Exit(EXIT_USAGE)


def _require_text(given: dict[str, Any]) -> None:
    """A byte that is no UTF-8 comes as a surrogate, which no message can hold."""
    for name, value in given.items():
        for text in value if isinstance(value, list) else [value]:
            if name != "tenant" and isinstance(text, str) and _SURROGATE.search(text):
                usage_error(f"What {name} says is no text (UTF-8): {text!a}.")


def _tenant(tenant: str | None) -> str | None:
    if tenant and not (tenant.isascii() and tenant.isprintable()):
        usage_error(f"{TENANT_NAMES}: a tenant is ASCII, not {tenant!a}.")
    return tenant or None


def _parameters(variable: str) -> list[Parameter]:
    kinds = {
        "address": (ADDRESSES[variable], None),
        "tenant": (options.Tenant, None),
        "key_file": (options.KeyFile, None),
        "ca_file": (options.CaFile, None),
        "certificate_file": (options.CertificateFile, None),
        "certificate_key_file": (options.CertificateKeyFile, None),
        "plaintext": (options.Plaintext, False),
        "as_json": (options.Json, False),
    }
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in kinds.items()
    ]


def _show_parameters(command: Callable[..., None], parameters: Sequence[Parameter]) -> None:
    """Lets typer see these parameters of the command."""
    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    command.__dict__["__signature__"] = inspect.Signature(named)
    command.__annotations__ = {each.name: each.annotation for each in named}


def _connection(
    variable: str,
    *,
    address: str | None,
    tenant: str | None,
    key_file: Path | None,
    ca_file: Path | None,
    certificate_file: Path | None,
    certificate_key_file: Path | None,
    plaintext: bool,
    as_json: bool,
) -> Connection:
    """What the options and the environment say; ends with a usage error where they say nothing."""
    api_key, key_source = _api_key(key_file)
    return Connection(
        variable=variable,
        address=_address(address or DEFAULT_ADDRESSES[variable]),
        api_key=api_key,
        key_source=key_source,
        tenant=_tenant(tenant),
        tls=_tls(ca=ca_file, certificate=certificate_file, key=certificate_key_file),
        plaintext=plaintext,
        as_json=as_json,
    )


def _tls(*, ca: Path | None, certificate: Path | None, key: Path | None) -> Tls | None:
    try:
        files = tls_files_of(ca=ca, certificate=certificate, key=key)
        return files.read() if files else None
    except (ValueError, CertificateUnreadableError) as error:
        usage_error(f"{error}.")


def _address(address: str) -> str:
    scheme, separator, rest = address.partition("://")
    if separator and scheme in ("http", "https", "grpc"):
        usage_error(f"An address is HOST:PORT, not {address}: say {rest.rstrip('/')}.")
    return address


def _api_key(key_file: Path | None) -> tuple[str, str]:
    """The key, and where it was found, for people."""
    named = os.environ.get(API_KEY, "")  # noqa: TID251  (the settings of the command line)
    if named and key_file is not None:
        usage_error(f"Both {API_KEY} and a key file ({key_file}) are set: keep one of them.")
    if key_file is not None:
        return _checked(_read(key_file).decode(errors="replace"), str(key_file))
    if named:
        return _checked(named, API_KEY)
    return _key_of_checkout() or usage_error(NO_KEY)


def _key_of_checkout() -> tuple[str, str] | None:
    """The operator's key that the suite made when it was first started here."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / CHECKOUT_KEYS
        if file.is_file():
            pairs = dict(_pairs(_read(file).decode(errors="replace")))
            if OPERATOR_API_KEY in pairs:
                return _checked(pairs[OPERATOR_API_KEY], f"{OPERATOR_API_KEY} in {file}")
    return None


def _pairs(text: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in text.splitlines()]
    parts = [line.partition("=") for line in lines if not line.startswith("#")]
    return [(name.strip(), value.strip()) for name, separator, value in parts if separator]


def _checked(text: str, source: str) -> tuple[str, str]:
    key = text.strip()
    if not _CREDENTIAL.fullmatch(key):
        usage_error(f"{source} holds no API key: one looks like fp_<id>_<secret>.")
    return key, source


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(KEY_FILE_BYTES_MAX)
    except OSError as error:
        usage_error(f"{path} cannot be read: {error.strerror}.")
