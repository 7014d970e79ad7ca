"""Stories from a real database, as the watchdog's role reads it."""

import pytest

from services.watchdog.settings import WatchdogSettings
from services.watchdog.timeline.operations import TimelineOperations
from shared.database import Database


@pytest.fixture
def timelines(database: Database, settings: WatchdogSettings) -> TimelineOperations:
    """Reads stories."""
    return TimelineOperations(database, settings)
