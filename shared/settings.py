"""The settings every service has; a service adds its own in a subclass with its own prefix."""

import ipaddress
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, FilePath, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from shared.environment import OWN, AlsoRead, OwnField, SettingsError, read
from shared.schema.urls import fault_in

EXIT_WRONG_SETTINGS = 2
MIB = 1024 * 1024

LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


def host_and_port(address: str) -> tuple[str, int]:
    """Splits `host:port` or `[v6]:port`; raises ValueError with a sentence."""
    match = re.fullmatch(
        r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]/\s]+)):(?P<port>\d{1,5})", address
    )
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be host:port or [IPv6 address]:port, with a port up to 65535")
    return match["v6"] or match["host"], int(match["port"])


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach a server that listens on this host:port."""
    host, _ = host_and_port(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(value: str) -> str:
    host_and_port(value)
    return value


def _database_url(value: SecretStr) -> SecretStr:
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("must begin with postgresql://")
    if not parts.path.strip("/"):
        raise ValueError("must name the database: postgresql://user:password@host:port/database")
    if fault := fault_in(value.get_secret_value()):
        raise ValueError(fault)
    return value


def is_http(url: str) -> bool:
    """Whether this is http:// or https:// with a host and, if any, a port that can be."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _endpoint(value: str) -> str:
    if value and not is_http(value):
        raise ValueError("must be http://host:port or https://host:port, with a port up to 65535")
    return value


def headers_in(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of `name=value,other=value`, percent-encoded as OpenTelemetry says.

    Raises ValueError, which quotes no value.
    """
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    found = tuple((unquote(n).strip().lower(), unquote(v).strip()) for n, _, v in pairs)
    if not all(re.fullmatch(r"[a-z0-9_.-]+", n) and v and v.isascii() for n, v in found):
        raise ValueError("must be name=value, and a comma before the next")
    return found


def _headers(value: SecretStr | None) -> SecretStr | None:
    headers_in(value.get_secret_value() if value else "")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Address = Annotated[str, AfterValidator(_address), OWN]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_database_url)]


class RuntimeSettings(BaseSettings):
    """What every service can be told; each field's description is its documentation."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database_url: Annotated[DatabaseUrl, OWN] = Field(
        description="PostgreSQL as this service's own role: postgresql://role:password@host:port/database."
    )
    database_pool_min: int = Field(
        default=1, ge=0, le=100, description="Connections kept open while idle."
    )
    database_pool_max: int = Field(
        default=8, ge=1, le=200, description="Connections at most; also transactions at once."
    )
    database_connect_timeout_ms: int = Field(
        default=2000,
        ge=100,
        le=30_000,
        description="How long a caller waits for a connection before DATABASE_UNAVAILABLE. A new "
        "connection gets this long too, in whole seconds and at least 2.",
    )
    database_statement_timeout_ms: int = Field(
        default=2000,
        ge=100,
        le=600_000,
        description="How long one statement may run. With the connect timeout it bounds how long a "
        "caller waits on a database that is away; keep their sum below 5 s.",
    )
    database_lock_timeout_ms: int = Field(
        default=1500,
        ge=10,
        le=600_000,
        description="How long a statement waits for one lock before it is set apart. Below the "
        "server's deadlock_timeout (1 s) a deadlock would not be told from a long wait.",
    )
    database_idle_in_transaction_timeout_ms: int = Field(
        default=10_000,
        ge=1000,
        le=600_000,
        description="How long the server keeps a transaction whose client has gone silent.",
    )
    database_prepare: bool = Field(
        default=True,
        description="Whether statements are prepared and session options set. Off behind PgBouncer "
        "in transaction mode: then options are set inside each transaction.",
    )

    grpc_address: Address = Field(description="host:port the gRPC server listens on.")
    admin_address: Address = Field(description="host:port of /livez, /readyz and /metrics (HTTP).")
    serve_plaintext: bool = Field(
        default=False,
        description="Whether gRPC may be served off loopback without TLS, as behind a mesh.",
    )
    tls_certificate_file: Path | None = Field(
        default=None,
        description="PEM certificate chain of the gRPC server; read again when it changes.",
    )
    tls_key_file: Path | None = Field(
        default=None, description="PEM private key of that certificate; read again when it changes."
    )
    tls_client_ca_file: Path | None = Field(
        default=None,
        description="PEM authorities; set, every client must show a certificate of theirs.",
    )
    reflection: bool | None = Field(
        default=None, description="Whether gRPC reflection is served; not set, only on loopback."
    )
    request_default_deadline_ms: int = Field(
        default=10_000, ge=100, le=600_000, description="Deadline of a call that came without one."
    )
    message_limit_bytes: int = Field(
        default=32 * MIB, ge=MIB, le=512 * MIB, description="Largest gRPC message taken."
    )
    request_buffer_bytes_max: int = Field(
        default=256 * MIB,
        ge=MIB,
        le=16_384 * MIB,
        description="Bytes of requests that are held at once; each counts as the largest message "
        "until it is read. More wait for a second and are refused as OVERLOADED.",
    )
    concurrent_rpcs_max: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="Calls served at once; more are refused as OVERLOADED.",
    )
    drain_grace_ms: int = Field(
        default=10_000,
        ge=0,
        le=600_000,
        description="After SIGTERM, how long calls that are under way may take to finish.",
    )
    key_cache_ms: int = Field(
        default=1000,
        ge=0,
        le=2000,
        description="How long a checked API key is trusted without asking the database again.",
    )
    key_lookup_timeout_ms: int = Field(
        default=1500,
        ge=100,
        le=30_000,
        description="How long a call waits for its API key to be looked up before "
        "DATABASE_UNAVAILABLE, however long the database is silent.",
    )

    log_format: Annotated[LogFormat, BeforeValidator(_lower)] = Field(
        default="auto", description="json, text, or auto: text on a terminal, else json."
    )
    log_level: Annotated[LogLevel, BeforeValidator(_lower)] = Field(
        default="info", description="Least severe level that is written."
    )
    otlp_endpoint: Annotated[
        str, AfterValidator(_endpoint), AlsoRead("OTEL_EXPORTER_OTLP_ENDPOINT")
    ] = Field(default="", description="OTLP gRPC collector for traces; empty: nothing is exported.")
    otlp_headers: Annotated[
        SecretStr | None,
        AfterValidator(_headers),
        AlsoRead("OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
        AlsoRead("OTEL_EXPORTER_OTLP_HEADERS"),
    ] = Field(
        default=None,
        description="Sent with each export, such as a collector's key: name=value,other=value.",
    )
    otlp_ca_file: Annotated[FilePath | None, AlsoRead("OTEL_EXPORTER_OTLP_CERTIFICATE")] = Field(
        default=None,
        description="PEM authorities of an https collector's certificate; else the public ones.",
    )
    otlp_certificate_file: Annotated[
        FilePath | None, AlsoRead("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")
    ] = Field(default=None, description="PEM certificate chain to show to an https collector.")
    otlp_key_file: Annotated[FilePath | None, AlsoRead("OTEL_EXPORTER_OTLP_CLIENT_KEY")] = Field(
        default=None, description="PEM private key of that certificate."
    )
    otlp_timeout_ms: int = Field(
        default=2000,
        ge=100,
        le=60_000,
        description="How long one export may take, and the last flush at shutdown at most.",
    )
    trace_sample_ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of new traces that are recorded; a caller's own decision is kept.",
    )
    instance: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=200,
        description="Name of this replica in logs, traces and leases.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - given by name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - given by name
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - given by name
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - given by name
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed: `shared.environment` reads the variables, for `load` alone."""
        return (init_settings,)

    @classmethod
    def variable(cls, name: str) -> str:
        """The environment variable of this field."""
        return cls.model_config.get("env_prefix", "") + name.upper()

    @property
    def serves_plaintext(self) -> bool:
        """Whether the gRPC server runs without TLS."""
        return self.tls_certificate_file is None

    @property
    def serves_reflection(self) -> bool:
        """Whether gRPC reflection is on."""
        return is_loopback(self.grpc_address) if self.reflection is None else self.reflection

    def require_both(self, name: str, other: str) -> None:
        """Raises ValueError, which names the variables, when one is set without the other."""
        if (getattr(self, name) is None) != (getattr(self, other) is None):
            raise ValueError(
                f"{self.variable(name)} and {self.variable(other)} "
                "belong together: set both or neither"
            )

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        self.require_both("tls_certificate_file", "tls_key_file")
        self.require_both("otlp_certificate_file", "otlp_key_file")
        if self.tls_client_ca_file is not None and self.tls_certificate_file is None:
            raise ValueError(
                f"{self.variable('tls_client_ca_file')} needs "
                f"{self.variable('tls_certificate_file')} and {self.variable('tls_key_file')}"
            )
        return self

    @model_validator(mode="after")
    def _plaintext_stays_on_loopback(self) -> Self:
        if (
            self.serves_plaintext
            and not self.serve_plaintext
            and not is_loopback(self.grpc_address)
        ):
            raise ValueError(
                f"{self.variable('grpc_address')} is {self.grpc_address!r}, which other machines "
                f"can reach, and there is no TLS: set {self.variable('tls_certificate_file')} and "
                f"{self.variable('tls_key_file')}, or {self.variable('serve_plaintext')}=true "
                "when something else encrypts the traffic"
            )
        return self

    @model_validator(mode="after")
    def _a_message_has_room(self) -> Self:
        if self.message_limit_bytes > self.request_buffer_bytes_max:
            raise ValueError(
                f"{self.variable('message_limit_bytes')} ({self.message_limit_bytes}) must not "
                f"exceed {self.variable('request_buffer_bytes_max')} "
                f"({self.request_buffer_bytes_max})"
            )
        return self

    @model_validator(mode="after")
    def _pool_has_room(self) -> Self:
        if self.database_pool_min > self.database_pool_max:
            raise ValueError(
                f"{self.variable('database_pool_min')} ({self.database_pool_min}) must not exceed "
                f"{self.variable('database_pool_max')} ({self.database_pool_max})"
            )
        return self


class CallerSettings(RuntimeSettings):
    """What a service that calls others is told beside, and what it may call.

    For each service in `calls` the subclass has five fields: `<callee>_address`,
    `_call_plaintext`, `_tls_ca_file`, `_tls_certificate_file` and `_tls_key_file`.
    """

    calls: ClassVar[tuple[str, ...]] = ()

    api_key: Annotated[SecretStr | None, OWN] = Field(
        default=None, description="This service's own API key, with which it calls other services."
    )

    @model_validator(mode="after")
    def _shown_certificates_are_whole(self) -> Self:
        for callee in self.calls:
            self.require_both(f"{callee}_tls_certificate_file", f"{callee}_tls_key_file")
        return self


R = TypeVar("R", bound=BaseSettings)


def load(settings_class: type[R], environment: Mapping[str, str] | None = None) -> R:
    """The settings of this process; says every wrong variable on stderr and exits 2."""
    try:
        return read(settings_class, os.environ if environment is None else environment)  # noqa: TID251 - read here for all
    except SettingsError as invalid:
        sys.stderr.write("The configuration is wrong:\n")
        sys.stderr.writelines(f"  {problem}\n" for problem in invalid.problems)
        sys.exit(EXIT_WRONG_SETTINGS)


__all__ = [
    "OWN",
    "Address",
    "AlsoRead",
    "CallerSettings",
    "OwnField",
    "RuntimeSettings",
    "SettingsError",
    "headers_in",
    "host_and_port",
    "is_http",
    "is_loopback",
    "load",
    "read",
]
