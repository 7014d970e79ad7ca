"""Every limit of ingress, and the keys that it seals webhook secrets under."""

from typing import Annotated, Self

from pydantic import Field, FilePath, model_validator
from pydantic_settings import SettingsConfigDict

from shared.sealing import SealingKeys
from shared.settings import MIB, Address, AlsoRead, CallerSettings


class IngressSettings(CallerSettings):
    """The webhook door, the marker's life, the wake and the sealing."""

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
    body_silence_timeout_ms: int = Field(
        default=3000,
        ge=100,
        le=600_000,
        description="How long nothing of it may come, until it has come to its end.",
    )
    webhook_senders_max: int = Field(
        default=500,
        ge=1,
        le=10_000,
        description="Webhooks whose bodies come at once; for one more, the one that has been "
        "silent for the longest gives way.",
    )
    webhook_concurrency_max: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Webhooks handled at once, counted from the end of their bodies; more are "
        "answered 503 with Retry-After.",
    )
    webhook_buffer_bytes_max: int = Field(
        default=256 * MIB,
        ge=MIB,
        le=16_384 * MIB,
        description="Bytes of webhook bodies held at once; more are answered 503 with Retry-After.",
    )
    batch_items_max: int = Field(
        default=500,
        ge=1,
        le=10_000,
        description="Deliveries that one transaction takes in; those that meet share one.",
    )
    batch_bytes_max: int = Field(
        default=4 * MIB,
        ge=65_536,
        le=256 * MIB,
        description="Bytes of bodies that one such transaction takes in.",
    )
    large_body_bytes: int = Field(
        default=MIB,
        ge=1024,
        le=100 * MIB,
        description="A larger body is taken in by itself, beside those that share a transaction.",
    )
    large_bodies_bytes_max: int = Field(
        default=32 * MIB,
        ge=MIB,
        le=16_384 * MIB,
        description="Bytes of large bodies taken in at once; more of them wait their turn.",
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
    large_answer_timeout_ms: int = Field(
        default=30_000,
        ge=100,
        le=600_000,
        description="The same for a large body, its wait for its turn included. A forge may have "
        "gone by then; what it sent is kept all the same.",
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

    sealing_keys: SealingKeys = Field(
        description="Keys that webhook secrets are sealed under, lines of id:base64 of 32 bytes. "
        "The first seals, all open; secrets come under the first within a minute."
    )

    @model_validator(mode="after")
    def _a_body_fits_a_message(self) -> Self:
        if self.body_limit_bytes + MIB > self.message_limit_bytes:
            raise ValueError(
                f"{self.variable('message_limit_bytes')} ({self.message_limit_bytes}) must exceed "
                f"{self.variable('body_limit_bytes')} ({self.body_limit_bytes}) by a MiB"
            )
        return self
