"""Figures of one name told apart by labels: each endpoint, each outcome with its reason."""

from datetime import timedelta

import pytest

from services.watchdog.settings import WatchdogSettings
from services.watchdog.status import figures_store
from services.watchdog.status.gauges import FigureGauges
from services.watchdog.status.operations import (
    Observation,
    Observed,
    StatusOperations,
    Unobservable,
)
from shared.database import Database
from shared.metrics import REGISTRY
from tests.rows import Rows, from_now
from tests.services.watchdog.made import put_endpoint

HEARD = "endpoint_heard_age_seconds"
BY_OUTCOME = "deliveries_last_hour"


@pytest.fixture
def status(database: Database, settings: WatchdogSettings) -> StatusOperations:
    return StatusOperations(database, settings)


async def of_name(status: StatusOperations, name: str, tenant: str | None) -> list[Observation]:
    return [each for each in await status.status(tenant) if each.figure.name == name]


async def endpoints(status: StatusOperations, tenant: str | None) -> dict[str, Observation]:
    """The endpoints' figures by tenant/name."""
    observations = await of_name(status, HEARD, tenant)
    return {f"{each.labels['tenant']}/{each.labels['endpoint']}": each for each in observations}


@pytest.mark.guarantee("W5", "X8")
async def test_each_endpoint_in_use_tells_when_it_was_last_heard(
    status: StatusOperations, rows: Rows
) -> None:
    await put_endpoint(rows, "acme", "github")
    await put_endpoint(rows, "acme", "gitlab", created_at=from_now(-60_000))
    await put_endpoint(rows, "acme", "gone", disabled_at=from_now(0))
    await put_endpoint(rows, "globex", "github")
    await rows.delivery(received_at=from_now(-90_000))
    await rows.delivery(received_at=from_now(-30_000), outcome="refused")
    await rows.delivery(tenant="globex", received_at=from_now(-5_000))
    ours, all_of_them = await endpoints(status, "acme"), await endpoints(status, None)
    assert list(ours) == ["acme/github", "acme/gitlab"]
    assert list(all_of_them) == ["acme/github", "acme/gitlab", "globex/github"]
    heard, silent = ours.values()
    assert isinstance(heard, Observed)
    assert 30 <= heard.value < 60
    assert isinstance(silent, Unobservable)
    assert silent.reason == "never heard since it was put"
    assert silent.since is not None
    assert timedelta(seconds=60) <= heard.at - silent.since < timedelta(seconds=90)


@pytest.mark.guarantee("W5", "X8")
async def test_what_came_in_is_told_by_outcome_and_reason(
    status: StatusOperations, rows: Rows
) -> None:
    await put_endpoint(rows, "acme", "github")
    await put_endpoint(rows, "acme", "gitlab")
    await put_endpoint(rows, "globex", "github", disabled_at=from_now(0))
    for reason in ("draft", "draft", "own-bot"):
        await rows.delivery(outcome="ignored", reason=reason)
    await rows.delivery(outcome="refused", reason="BODY_TOO_LARGE")
    await rows.delivery(tenant="globex", outcome="ignored", reason="draft")
    await rows.delivery(tenant="globex")
    await rows.delivery(outcome="ignored", reason="draft", received_at=from_now(-3_700_000))

    async def counted(tenant: str | None) -> dict[tuple[str, str], float]:
        return {
            (each.labels["outcome"], each.labels["reason"]): each.value
            for each in await of_name(status, BY_OUTCOME, tenant)
            if isinstance(each, Observed)
        }

    assert await counted("acme") == {
        ("accepted", ""): 0,
        ("duplicate", ""): 0,
        ("ignored", "draft"): 2,
        ("ignored", "own-bot"): 1,
        ("refused", "BODY_TOO_LARGE"): 1,
    }
    of_all = await counted(None)
    assert (of_all["ignored", "draft"], of_all["accepted", ""]) == (3, 1)


@pytest.mark.guarantee("W5")
async def test_endpoints_that_are_too_many_to_tell_are_not_told_in_part(
    status: StatusOperations, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures_store, "READINGS_MAX", 5)
    for number in range(6):
        await put_endpoint(rows, f"tenant-{number}", "github")
    [hidden] = await of_name(status, HEARD, None)
    assert isinstance(hidden, Unobservable)
    assert hidden.reason == "there are more than 5 of them; name a tenant"
    assert list(await endpoints(status, "tenant-3")) == ["tenant-3/github"]


def age_scraped(endpoint: str) -> float | None:
    return REGISTRY.get_sample_value(HEARD, {"tenant": "acme", "endpoint": endpoint})


@pytest.mark.guarantee("W5")
async def test_an_endpoint_never_heard_or_no_longer_in_use_has_no_sample(
    status: StatusOperations, rows: Rows
) -> None:
    gauges = FigureGauges(status)
    await put_endpoint(rows, "acme", "github")
    await put_endpoint(rows, "acme", "gitlab")
    await rows.delivery(received_at=from_now(-30_000))
    await gauges.tick()
    age = age_scraped("github")
    assert age is not None
    assert 30 <= age < 60
    assert age_scraped("gitlab") is None
    told = REGISTRY.get_sample_value("status_figure_unobservable", {"figure": HEARD})
    assert told == 0
    await rows.change("endpoints", {"name": "github"}, disabled_at=from_now(0))
    await gauges.tick()
    assert age_scraped("github") is None
