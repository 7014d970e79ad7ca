"""What the commands refuse to be told."""

import pytest

from services.command_settings import SuiteSettings
from shared.environment import SettingsError, read

OWNER = "postgresql://owner:secret@h/d"
SERVICE = "postgresql://fencepost_watchdog:secret@h/d"


def test_a_service_on_another_database_than_the_suites_own_is_refused() -> None:
    with pytest.raises(SettingsError, match="WATCHDOG_DATABASE_URL is set, so DATABASE_URL must"):
        read(SuiteSettings, {"WATCHDOG_DATABASE_URL": SERVICE})


def test_on_a_database_that_is_named_a_service_may_be_named_too() -> None:
    settings = read(SuiteSettings, {"DATABASE_URL": OWNER, "WATCHDOG_DATABASE_URL": SERVICE})

    assert settings.owner_url == OWNER
    assert settings.service_urls == {"watchdog": SERVICE}
