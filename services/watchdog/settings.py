"""Every limit of the watchdog."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.settings import Address, RuntimeSettings


class WatchdogSettings(RuntimeSettings):
    """How long a figure may take, how often figures are measured, and how long a story may be."""

    model_config = SettingsConfigDict(env_prefix="WATCHDOG_")

    grpc_address: Address = Field(
        default="127.0.0.1:7104", description="host:port the gRPC server listens on."
    )
    admin_address: Address = Field(
        default="127.0.0.1:7114", description="host:port of /livez, /readyz and /metrics (HTTP)."
    )

    figure_timeout_ms: int = Field(
        default=3000,
        ge=100,
        le=60_000,
        description="How long one figure may take before it counts as unobservable.",
    )
    figures_at_once_max: int = Field(
        default=4, ge=1, le=100, description="Figures asked of the database at once."
    )
    figure_period_ms: int = Field(
        default=15_000,
        ge=1000,
        le=3_600_000,
        description="How often the figures of all tenants are measured for /metrics.",
    )
    timeline_events_max: int = Field(
        default=500,
        ge=10,
        le=10_000,
        description="Events in one timeline; of more the oldest are left out.",
    )
