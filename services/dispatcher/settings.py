"""Every limit of the dispatcher."""

from typing import Self

from pydantic import Field, FilePath, model_validator
from pydantic_settings import SettingsConfigDict

from shared.settings import MIB, Address, CallerSettings


class DispatcherSettings(CallerSettings):
    """Leases, sessions, retries, the periods of background duties, and the publisher."""

    model_config = SettingsConfigDict(env_prefix="DISPATCHER_")
    calls = ("publisher",)

    grpc_address: Address = Field(
        default="127.0.0.1:7102", description="host:port the gRPC server listens on."
    )
    admin_address: Address = Field(
        default="127.0.0.1:7112", description="host:port of /livez, /readyz and /metrics (HTTP)."
    )

    lease_ms: int = Field(
        default=1_800_000,
        ge=1000,
        le=86_400_000,
        description="How long a lease holds without a renewal, unless its queue says it.",
    )
    attempts_max: int = Field(
        default=8,
        ge=1,
        le=100,
        description="Attempts at most, whatever a queue allows; after them the intent is dead.",
    )
    retries_max: int = Field(
        default=8,
        ge=0,
        le=100,
        description="Retries after the first attempt, unless the queue says how many.",
    )
    retry_delay_ms: int = Field(
        default=60_000,
        ge=0,
        le=86_400_000,
        description="Wait before a retry, unless the failure or the queue says how long.",
    )
    blocked_recheck_ms: int = Field(
        default=600_000,
        ge=1000,
        le=86_400_000,
        description="Longest wait of an intent that is blocked on something outside.",
    )
    holder_wait_max_ms: int = Field(
        default=30_000,
        ge=100,
        le=3_600_000,
        description="Longest wait of an intent put back because another holds its key.",
    )
    poll_interval_ms: int = Field(
        default=1000,
        ge=10,
        le=60_000,
        description="How often this process looks for work and for what is due.",
    )
    heartbeat_interval_ms: int = Field(
        default=5000, ge=100, le=60_000, description="How often a worker says that it lives."
    )
    session_grace_ms: int = Field(
        default=15_000,
        ge=1000,
        le=600_000,
        description="Time for a stream's Hello, and at most for what an ended session still holds.",
    )
    grant_batch_max: int = Field(
        default=100, ge=1, le=1000, description="Intents granted in one transaction."
    )
    credit_max: int = Field(
        default=10_000, ge=1, le=100_000, description="Credit that one session may pile up."
    )
    frame_items_max: int = Field(
        default=1000, ge=1, le=1000, description="Items in one frame sent to a worker."
    )
    frame_bytes_max: int = Field(
        default=4 * MIB, ge=2 * MIB, le=4 * MIB, description="Size of one frame sent to a worker."
    )
    frame_limit_bytes: int = Field(
        default=4 * MIB,
        ge=4 * MIB,
        le=512 * MIB,
        description="Largest frame taken from a worker; workers count on 4 MiB. A larger one ends "
        "its stream.",
    )
    payload_inline_limit_bytes: int = Field(
        default=MIB,
        ge=1024,
        le=MIB,
        description="Larger payloads are fetched by the worker instead of sent with the dispatch.",
    )
    mover_period_ms: int = Field(
        default=30_000,
        ge=10,
        le=60_000,
        description="How often due intents are made ready, beside each look that finds one.",
    )
    expiry_period_ms: int = Field(
        default=30_000,
        ge=10,
        le=60_000,
        description="How often overdue leases are put back, beside each look that finds one.",
    )
    span_export_period_ms: int = Field(
        default=30_000,
        ge=10,
        le=60_000,
        description="How often stored worker spans are exported, beside each look that finds one.",
    )
    head_resolve_period_ms: int = Field(
        default=30_000,
        ge=10,
        le=60_000,
        description="How often forges are asked for heads, beside each look that finds one due.",
    )
    duty_batch_max: int = Field(
        default=500, ge=1, le=10_000, description="Rows one tick of a background duty touches."
    )

    publisher_address: Address = Field(
        default="127.0.0.1:7103",
        description="host:port of the publisher, which is asked for heads that are not known.",
    )
    publisher_call_plaintext: bool = Field(
        default=False, description="Whether the publisher is called without TLS off loopback."
    )
    publisher_tls_ca_file: FilePath | None = Field(
        default=None,
        description="PEM authorities of the publisher's certificate; else the public ones. This "
        "and the next two are read again when they change.",
    )
    publisher_tls_certificate_file: FilePath | None = Field(
        default=None,
        description="PEM certificate chain to show to a publisher that asks for one.",
    )
    publisher_tls_key_file: FilePath | None = Field(
        default=None, description="PEM private key of that certificate."
    )
    publisher_timeout_ms: int = Field(
        default=30_000,
        ge=100,
        le=300_000,
        description="How long the publisher may take to ask a forge for a head. Keep it above "
        "PUBLISHER_FORGE_CALL_TIMEOUT_MS, or a silent forge looks like an absent publisher.",
    )

    @model_validator(mode="after")
    def _a_frame_fits_a_message(self) -> Self:
        if self.frame_limit_bytes > self.message_limit_bytes:
            raise ValueError(
                f"{self.variable('message_limit_bytes')} ({self.message_limit_bytes}) must not be "
                f"below {self.variable('frame_limit_bytes')} ({self.frame_limit_bytes})"
            )
        return self
