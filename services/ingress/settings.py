"""Every limit of ingress, and the endpoint it takes deliveries for."""

from typing import Annotated, Literal, Self

from pydantic import Field, FilePath, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from services.ingress.signing_tokens import signing_key
from shared.settings import MIB, Address, AlsoRead, CallerSettings

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]*$"
ACTION_PATTERN = r"^[a-z0-9][a-z0-9:._-]*$"
INSTANCE_PATTERN = r"^[a-z0-9.:-]+$"

GITHUB = "github.com"


class IngressSettings(CallerSettings):
    """The webhook door, the marker's life, the wake and the endpoint."""

    model_config = SettingsConfigDict(env_prefix="INGRESS_")
    calls = ("dispatcher",)

    grpc_address: Address = Field(
        default="127.0.0.1:7101", description="host:port the gRPC server listens on."
    )
    admin_address: Address = Field(
        default="127.0.0.1:7111", description="host:port of /livez, /readyz and /metrics (HTTP)."
    )
    webhook_address: Address = Field(
        default="127.0.0.1:7100",
        description="host:port that forges post webhooks to (HTTP; put TLS in front of it).",
    )

    body_limit_bytes: int = Field(
        default=25 * MIB,
        ge=1024,
        le=100 * MIB,
        description="Largest body taken in; a larger one is refused before it is buffered.",
    )
    body_read_timeout_ms: int = Field(
        default=10_000,
        ge=100,
        le=600_000,
        description="How long a webhook's body may take to come.",
    )
    webhook_concurrency_max: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Webhooks handled at once; more are answered 503 with Retry-After.",
    )
    webhook_buffer_bytes_max: int = Field(
        default=256 * MIB,
        ge=MIB,
        le=16_384 * MIB,
        description="Bytes of webhook bodies held at once; more are answered 503 with Retry-After.",
    )
    signature_window_s: int = Field(
        default=300,
        ge=1,
        le=86_400,
        description="How far the time in a signature may be from the database's, in seconds.",
    )
    answer_timeout_ms: int = Field(
        default=4000,
        ge=100,
        le=60_000,
        description="How long storing a webhook may take before it is answered 503.",
    )
    retry_after_s: int = Field(
        default=5, ge=1, le=3600, description="Retry-After of every answer 503, in seconds."
    )
    dedupe_ttl_seconds: Annotated[int, AlsoRead("DEDUPE_TTL_SECONDS")] = Field(
        default=604_800,
        ge=1,
        le=31_536_000,
        description="How long a delivery id counts as seen; after it the key still dedupes.",
    )

    dispatcher_address: Address = Field(
        default="127.0.0.1:7102",
        description="host:port of the dispatcher; each address the name resolves to is woken.",
    )
    dispatcher_call_plaintext: bool = Field(
        default=False, description="Whether the dispatcher is called without TLS off loopback."
    )
    dispatcher_tls_ca_file: FilePath | None = Field(
        default=None,
        description="PEM authorities of the dispatcher's certificate; else the public ones. This "
        "and the next two are read again when they change.",
    )
    dispatcher_tls_certificate_file: FilePath | None = Field(
        default=None,
        description="PEM certificate chain to show to a dispatcher that asks for one.",
    )
    dispatcher_tls_key_file: FilePath | None = Field(
        default=None, description="PEM private key of that certificate."
    )
    wake_timeout_ms: int = Field(
        default=1000,
        ge=50,
        le=30_000,
        description="Deadline of one wake; its loss only costs a poll.",
    )

    endpoint_name: str = Field(
        default="",
        max_length=100,
        pattern=r"^$|" + NAME_PATTERN,
        description="Name of the endpoint, the last part of its webhook address; empty: none.",
    )
    endpoint_tenant: str = Field(
        default="", max_length=100, description="Tenant that owns the endpoint and its work."
    )
    endpoint_forge: Literal["forgejo", "gitea", "github", "gitlab"] = Field(
        default="github",
        description="Forge that sends to the endpoint: forgejo, gitea, github or gitlab.",
    )
    endpoint_proof: Literal["signature", "token"] = Field(
        default="signature",
        description="What proves who sent: the forge's signature, or for gitlab also its token, "
        "which says nothing of the body.",
    )
    endpoint_forge_instance: str = Field(
        default=GITHUB,
        max_length=253,
        pattern=INSTANCE_PATTERN,
        description="Host of the forge, part of every key; must be set for any but github.",
    )
    endpoint_secret: SecretStr | None = Field(
        default=None, description="Secret that the forge signs webhooks with."
    )
    endpoint_secret_previous: SecretStr | None = Field(
        default=None, description="An older secret that still counts while it is being replaced."
    )
    endpoint_queue: str = Field(
        default="reviews",
        max_length=100,
        pattern=NAME_PATTERN,
        description="Queue that the endpoint's work waits on.",
    )
    endpoint_action: str = Field(
        default="container-dispatch",
        max_length=100,
        pattern=ACTION_PATTERN,
        description="Bot and purpose of the endpoint's work.",
    )

    @model_validator(mode="after")
    def _endpoint_is_whole(self) -> Self:
        for name in ("endpoint_tenant", "endpoint_secret"):
            if self.endpoint_name and not getattr(self, name):
                raise ValueError(
                    f"{self.variable('endpoint_name')} is set, so {self.variable(name)} must be too"
                )
        return self

    @model_validator(mode="after")
    def _an_instance_is_of_its_forge(self) -> Self:
        if self.endpoint_forge != "github" and self.endpoint_forge_instance == GITHUB:
            raise ValueError(
                f"{self.variable('endpoint_forge')} is {self.endpoint_forge}, so "
                f"{self.variable('endpoint_forge_instance')} must name its host"
            )
        return self

    @model_validator(mode="after")
    def _a_proof_is_of_its_forge(self) -> Self:
        if self.endpoint_proof == "token" and self.endpoint_forge != "gitlab":
            raise ValueError(
                f"{self.variable('endpoint_proof')} is token, which only gitlab sends, and "
                f"{self.variable('endpoint_forge')} is {self.endpoint_forge}"
            )
        return self

    @model_validator(mode="after")
    def _a_signing_token_is_one(self) -> Self:
        if (self.endpoint_forge, self.endpoint_proof) != ("gitlab", "signature"):
            return self
        for name in ("endpoint_secret", "endpoint_secret_previous"):
            secret: SecretStr | None = getattr(self, name)
            if secret and signing_key(secret.get_secret_value().encode()) is None:
                raise ValueError(
                    f"{self.variable(name)} must be a signing token of gitlab's: "
                    "whsec_ and a key in base64"
                )
        return self

    @model_validator(mode="after")
    def _a_body_fits_a_message(self) -> Self:
        if self.body_limit_bytes + MIB > self.message_limit_bytes:
            raise ValueError(
                f"{self.variable('message_limit_bytes')} ({self.message_limit_bytes}) must exceed "
                f"{self.variable('body_limit_bytes')} ({self.body_limit_bytes}) by a MiB"
            )
        return self
