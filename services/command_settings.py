"""What the one-shot commands are told, by the same variables that the services read."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from shared.schema.grants import SERVICES, Service, role_of
from shared.schema.roles import login_in, passwords_in
from shared.schema.transaction import Limits
from shared.settings import OWN, DatabaseUrl

ServiceUrl = Annotated[DatabaseUrl | None, OWN]
OWNER_URL = "PostgreSQL as the owner, who migrates: postgresql://owner:password@host:port/database."


class CommandSettings(BaseSettings):
    """Base of the commands' settings; they are read by `shared.settings.load` alone."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - given by name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - given by name
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - given by name
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - given by name
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed."""
        return (init_settings,)


class ServiceUrls(CommandSettings):
    """The services' own URLs, as far as they are set."""

    ingress_database_url: ServiceUrl = Field(
        default=None, description="As ingress; its role gets this password."
    )
    dispatcher_database_url: ServiceUrl = Field(
        default=None, description="As the dispatcher; its role gets this password."
    )
    publisher_database_url: ServiceUrl = Field(
        default=None, description="As the publisher; its role gets this password."
    )
    watchdog_database_url: ServiceUrl = Field(
        default=None, description="As the watchdog; its role gets this password."
    )

    @property
    def service_urls(self) -> dict[Service, str]:
        """Those that are set."""
        urls: dict[Service, SecretStr | None] = {
            service: getattr(self, f"{service}_database_url") for service in SERVICES
        }
        return {service: url.get_secret_value() for service, url in urls.items() if url}

    @property
    def role_passwords(self) -> dict[Service, str]:
        """Passwords of the services whose URL is set and holds one."""
        return passwords_in(self.service_urls)

    @model_validator(mode="after")
    def _each_service_logs_in_as_its_role(self) -> Self:
        for service, url in self.service_urls.items():
            user = login_in(url).user
            if user != role_of(service):
                raise ValueError(
                    f"{service.upper()}_DATABASE_URL logs in as {user!r}, but the role of the "
                    f"service, which has its privileges, is {role_of(service)}"
                )
        return self


class MigrateSettings(ServiceUrls):
    """The owner's URL, and the services' own, whose passwords their roles get."""

    own_prefix: ClassVar[str] = "MIGRATE_"
    """Variables that begin so are its own: one that it does not know is refused."""

    database_url: Annotated[DatabaseUrl, OWN] = Field(description=OWNER_URL)
    migrate_lock_timeout_ms: Annotated[int, OWN] = Field(
        default=5_000,
        ge=10,
        le=600_000,
        description="How long a migration waits for one lock, and makes others wait behind it.",
    )
    migrate_turn_timeout_ms: Annotated[int, OWN] = Field(
        default=60_000,
        ge=10,
        le=3_600_000,
        description="How long it waits for another migration of the same database.",
    )

    @property
    def limits(self) -> Limits:
        """How long it waits."""
        return Limits(
            lock_timeout_ms=self.migrate_lock_timeout_ms,
            turn_timeout_ms=self.migrate_turn_timeout_ms,
        )


class SuiteSettings(ServiceUrls):
    """Without DATABASE_URL the suite brings a database of its own."""

    database_url: ServiceUrl = Field(default=None, description=OWNER_URL)

    @property
    def owner_url(self) -> str | None:
        """The owner's URL, if it is set."""
        return self.database_url.get_secret_value() if self.database_url else None

    @model_validator(mode="after")
    def _services_use_the_database_that_is_migrated(self) -> Self:
        for service in self.service_urls:
            if self.database_url is None:
                raise ValueError(
                    f"{service.upper()}_DATABASE_URL is set, so DATABASE_URL must be too: "
                    "without it the suite uses a database of its own"
                )
        return self


class BootstrapSettings(CommandSettings):
    """The watchdog's role is the one that may make keys."""

    watchdog_database_url: Annotated[DatabaseUrl, OWN] = Field(
        description="PostgreSQL as the watchdog, whose role may make API keys."
    )
