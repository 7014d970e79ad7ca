"""The database fails between the claim and the record: nothing is doubled, nothing is lost (X6)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from fencepost.errors import DatabaseUnavailable, ReconciliationRequired
from pydantic import SecretStr

from examples.scripted_forge.client import ScriptedForge
from services.publisher.settings import PublisherSettings
from shared.database import Database
from tests.database_proxy import COMMIT, DatabaseProxy, Loss
from tests.rows import Rows
from tests.services.publisher.bench import Bench, forge_settings
from tests.services.publisher.commands import review_of
from tests.waiting import until


@pytest.fixture
async def proxy(settings: PublisherSettings) -> AsyncIterator[DatabaseProxy]:
    """The network between the publisher and its database."""
    async with DatabaseProxy.before(settings.database_url.get_secret_value()) as proxy:
        yield proxy


@pytest.fixture
async def bench(
    rows: Rows, forge: ScriptedForge, settings: PublisherSettings, proxy: DatabaseProxy
) -> AsyncIterator[Bench]:
    """A publisher behind that network."""
    changes = {"database_url": SecretStr(proxy.url()), "database_statement_timeout_ms": 500}
    impatient = settings.model_copy(update=changes)
    async with Database.create(impatient, application_name="publisher") as database:
        yield Bench(rows, forge, database, forge_settings(impatient, forge))


@pytest.mark.guarantee("X6", "P2b")
@pytest.mark.parametrize("loss", ["lose the answer", "keep the answer"])
async def test_a_claim_whose_commit_was_not_answered_is_looked_up_and_sent_once(
    bench: Bench, proxy: DatabaseProxy, loss: Loss
) -> None:
    work = await bench.work()
    proxy.trap(COMMIT, loss)
    published = await bench.publishing().publish_review(review_of(work))
    assert proxy.trapped == 1
    assert not published.duplicate
    assert [each["status"] for each in await bench.attempts(work)] == ["succeeded"]
    assert len(bench.requests(work)) == 1


@pytest.mark.guarantee("X6", "P2b")
async def test_a_claim_whose_commit_never_arrived_sends_nothing(
    bench: Bench, proxy: DatabaseProxy
) -> None:
    work = await bench.work()
    proxy.trap(COMMIT, "lose the request")
    with pytest.raises(DatabaseUnavailable) as refusal:
        await bench.publishing().publish_review(review_of(work))
    assert proxy.trapped == 1
    assert not refusal.value.outcome_unknown
    assert await bench.attempts(work) == []
    assert bench.requests(work) == []


@pytest.mark.guarantee("X6", "P2b")
async def test_a_claim_of_unknown_fate_sends_nothing(bench: Bench, proxy: DatabaseProxy) -> None:
    work = await bench.work()
    publishing = bench.publishing(record_window_ms=1)
    proxy.trap(COMMIT, "keep the answer")
    calling = asyncio.create_task(publishing.publish_review(review_of(work)))
    await until(lambda: proxy.trapped, what="the claim's commit")
    await proxy.cut()
    with pytest.raises(DatabaseUnavailable) as refusal:
        await calling
    assert refusal.value.outcome_unknown
    assert bench.requests(work) == []


@pytest.mark.guarantee("P5", "X6")
@pytest.mark.parametrize("loss", ["lose the request", "lose the answer", "keep the answer"])
async def test_an_outcome_whose_commit_was_lost_is_recorded_all_the_same(
    bench: Bench, proxy: DatabaseProxy, loss: Loss
) -> None:
    work = await bench.work()
    bench.forge.fault("slow_answer", delay_ms=300, path_regex=bench.repo_name(work))
    calling = asyncio.create_task(bench.publishing().publish_review(review_of(work)))
    await until(lambda: bench.requests(work), what="the request to reach the forge")
    proxy.trap(COMMIT, loss)
    published = await calling
    assert proxy.trapped == 1
    [attempt] = await bench.attempts(work)
    assert attempt["status"] == "succeeded"
    assert attempt["remote_id"] == published.publication.attempts[0].remote_id
    assert len(bench.requests(work)) == 1


@pytest.mark.guarantee("P5")
async def test_an_outcome_waits_for_a_database_that_is_away(
    bench: Bench, proxy: DatabaseProxy
) -> None:
    work = await bench.work()
    bench.forge.fault("slow_answer", delay_ms=300, path_regex=bench.repo_name(work))
    calling = asyncio.create_task(bench.publishing().publish_review(review_of(work)))
    await until(lambda: bench.requests(work), what="the request to reach the forge")
    await proxy.cut()
    await until(lambda: bench.remote_reviews(work), what="the review to be stored")
    refused_before = proxy.accepted
    await proxy.restore()
    await calling
    assert proxy.accepted > refused_before
    assert [each["status"] for each in await bench.attempts(work)] == ["succeeded"]
    assert len(bench.requests(work)) == 1


@pytest.mark.guarantee("P6")
async def test_an_outcome_that_cannot_be_recorded_in_time_is_doubt(
    bench: Bench, proxy: DatabaseProxy
) -> None:
    work = await bench.work()
    publishing = bench.publishing(record_window_ms=1)
    bench.forge.fault("slow_answer", delay_ms=300, path_regex=bench.repo_name(work))
    calling = asyncio.create_task(publishing.publish_review(review_of(work)))
    await until(lambda: bench.requests(work), what="the request to reach the forge")
    await proxy.cut()
    with pytest.raises(ReconciliationRequired, match="may have reached the forge"):
        await calling
    assert [each["status"] for each in await bench.attempts(work)] == ["running"]
    await proxy.restore()
    with pytest.raises(ReconciliationRequired, match="running"):
        await publishing.publish_review(review_of(work))
    assert len(bench.requests(work)) == 1
