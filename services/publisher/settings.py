"""Every limit of the publisher, and the forge it writes to."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from shared.sealing import Keyring, SealingKeys
from shared.settings import MIB, Address, RuntimeSettings, is_http, is_loopback

HTTP_PORT = 80
IN_CLEAR = "would travel in clear: use https or, where something else encrypts the traffic, set"


def _base_url(value: str) -> str:
    if not is_http(value):
        raise ValueError("must be http://host or https://host, with a path where the API has one")
    parts = urlsplit(value)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must hold no credential, query or fragment")
    return value.rstrip("/")


class PublisherSettings(RuntimeSettings):
    """The forge, its credential, and how long a call to it may take."""

    model_config = SettingsConfigDict(env_prefix="PUBLISHER_")

    grpc_address: Address = Field(
        default="127.0.0.1:7103", description="host:port the gRPC server listens on."
    )
    admin_address: Address = Field(
        default="127.0.0.1:7113", description="host:port of /livez, /readyz and /metrics (HTTP)."
    )
    request_default_deadline_ms: int = Field(
        default=20_000, ge=100, le=600_000, description="Deadline of a call that came without one."
    )
    drain_grace_ms: int = Field(
        default=25_000,
        ge=0,
        le=600_000,
        description="After SIGTERM, how long calls that are under way may take to finish. Keep it "
        "above PUBLISHER_FORGE_CALL_TIMEOUT_MS, or a stop can leave a publication in doubt.",
    )

    forge_url: Annotated[str, AfterValidator(_base_url)] = Field(
        default="https://api.github.com",
        description="Base URL of GitHub's REST API, e.g. https://ghe.example.com/api/v3.",
    )
    forge_call_plaintext: bool = Field(
        default=False,
        description="Whether a forge off loopback may be called by http, its token in clear.",
    )
    forge_instance: str = Field(
        default="github.com",
        min_length=1,
        max_length=253,
        description="Name under which deliveries know this forge; work of another one is refused.",
    )
    forge_token: SecretStr | None = Field(
        default=None, description="Token that may write reviews; without one nothing is sent."
    )
    forge_connect_timeout_ms: int = Field(
        default=5000, ge=100, le=60_000, description="How long connecting to the forge may take."
    )
    forge_write_timeout_ms: int = Field(
        default=10_000,
        ge=100,
        le=60_000,
        description="How long the forge may take nothing of a request in.",
    )
    forge_read_timeout_ms: int = Field(
        default=15_000,
        ge=100,
        le=120_000,
        description="How long the forge may be silent before an answer counts as lost. GitHub "
        "gives up on a request after 10 s.",
    )
    forge_call_timeout_ms: int = Field(
        default=20_000,
        ge=100,
        le=300_000,
        description="How long one call to the forge may take in all; for a head, all its tries.",
    )
    forge_read_attempts_max: int = Field(
        default=3,
        ge=1,
        le=10,
        description="How often a read is tried while the forge fails in a way that may pass. "
        "Writes are never tried again.",
    )
    forge_answer_limit_bytes: int = Field(
        default=4 * MIB, ge=1024, le=64 * MIB, description="How much of an answer is read."
    )
    sealing_keys: SealingKeys | None = Field(
        default=None,
        description="Keys that the tokens of connections are sealed under, lines of id:base64 of "
        "32 bytes. The first seals, all open; without one there are no connections.",
    )
    strict_uncertain: bool = Field(
        default=False,
        description="Whether refusals by the forge are recorded as uncertain too, so that a "
        "person looks before anything is sent again.",
    )
    record_window_ms: int = Field(
        default=600_000,
        ge=1000,
        le=86_400_000,
        description="How long an outcome is offered to a database that is away, before it is "
        "left to reconciliation.",
    )

    @property
    def keyring(self) -> Keyring | None:
        """The key-encryption keys, where some are set."""
        keys = self.sealing_keys
        return None if keys is None else Keyring.parse(keys.get_secret_value())

    def base_url_problem(self, base_url: str) -> str | None:
        """Why no token may be sent to this address; None: it may."""
        try:
            _base_url(base_url)
        except ValueError as error:
            return str(error)
        return f"the token {self._in_clear()}" if self._is_in_clear(base_url) else None

    @model_validator(mode="after")
    def _token_stays_encrypted(self) -> Self:
        if self._is_in_clear(self.forge_url):
            raise ValueError(
                f"{self.variable('forge_url')} is {self.forge_url!r}, over which the token "
                f"{self._in_clear()}"
            )
        return self

    def _in_clear(self) -> str:
        return f"{IN_CLEAR} {self.variable('forge_call_plaintext')}=true"

    def _is_in_clear(self, url: str) -> bool:
        parts = urlsplit(url)
        host = parts.hostname or ""
        address = f"{f'[{host}]' if ':' in host else host}:{parts.port or HTTP_PORT}"
        return parts.scheme == "http" and not (is_loopback(address) or self.forge_call_plaintext)
