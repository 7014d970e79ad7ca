"""What /metrics shows of the figures."""

import pytest

from services.watchdog.settings import WatchdogSettings
from services.watchdog.status.gauges import FigureGauges
from services.watchdog.status.operations import StatusOperations
from shared.database import Database
from shared.metrics import REGISTRY
from tests.rows import Rows


def sample(metric: str, figure: str) -> float | None:
    """A sample as it would be scraped; None where there is none."""
    return REGISTRY.get_sample_value(metric, {"figure": figure})


@pytest.mark.guarantee("W5")
async def test_what_cannot_be_observed_has_no_sample(
    database: Database, settings: WatchdogSettings, rows: Rows
) -> None:
    gauges = FigureGauges(StatusOperations(database, settings))
    await rows.hold()
    await gauges.tick()
    assert sample("status_figure", "holds_active") == 1
    assert sample("status_figure_unobservable", "holds_active") == 0
    await rows.connection.execute("REVOKE SELECT ON fencepost.holds FROM fencepost_watchdog")
    for _ in range(2):
        await gauges.tick()
        assert sample("status_figure", "holds_active") is None
        assert sample("status_figure_unobservable", "holds_active") == 1
        assert sample("status_figure", "intents_ready") == 0
    await rows.connection.execute("GRANT SELECT ON fencepost.holds TO fencepost_watchdog")
    await gauges.tick()
    assert sample("status_figure", "holds_active") == 1
    assert sample("status_figure_unobservable", "holds_active") == 0
