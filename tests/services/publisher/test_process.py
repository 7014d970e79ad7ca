"""A publisher that is stopped, or killed, while the forge thinks."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fencepost.errors import FencepostError, ReconciliationRequired

from shared.schema.grants import Service
from tests.services.publisher.bench import Bench
from tests.services.publisher.served import served
from tests.services.publisher.wire import calling, review_request
from tests.waiting import until, until_sync


@pytest.mark.guarantee("P5")
@pytest.mark.parametrize("caller_leaves", [False, True])
async def test_a_stop_waits_for_a_publication_and_its_record(
    bench: Bench, service_url: Callable[[Service], str], caller_leaves: bool
) -> None:
    work = await bench.work()
    key = await bench.rows.api_key("publish")
    bench.forge.fault("slow_answer", delay_ms=1500, path_regex=bench.repo_name(work))
    with served(service_url("publisher"), bench.forge) as publisher:
        async with calling(publisher.grpc, key) as caller:
            call: asyncio.Task[Any] = asyncio.create_task(
                caller.call("PublishReview", review_request(work))
            )
            await until(lambda: bench.requests(work), what="the request to reach the forge")
            publisher.ask_to_stop()
            if caller_leaves:
                call.cancel()
            await asyncio.wait([call])
        assert publisher.stopped() == 0
    [attempt] = await bench.attempts(work)
    assert attempt["status"] == "succeeded"
    if not caller_leaves:
        [seen] = call.result().publication.attempts
        assert seen.remote_id == attempt["remote_id"]
    assert len(bench.requests(work)) == 1


@pytest.mark.guarantee("P2", "P6")
async def test_a_crash_between_mark_and_answer_leaves_doubt_and_sends_nothing_more(
    bench: Bench, service_url: Callable[[Service], str]
) -> None:
    work = await bench.work()
    key = await bench.rows.api_key("publish")
    bench.forge.fault("slow_answer", delay_ms=1500, path_regex=bench.repo_name(work))
    with served(service_url("publisher"), bench.forge) as publisher:
        async with calling(publisher.grpc, key) as caller:
            call = asyncio.create_task(caller.call("PublishReview", review_request(work)))
            await until(lambda: bench.requests(work), what="the request to reach the forge")
            publisher.kill()
            with pytest.raises(FencepostError):
                await call
    until_sync(lambda: bench.remote_reviews(work), what="the review to be stored")
    with served(service_url("publisher"), bench.forge) as publisher:
        async with calling(publisher.grpc, key) as caller:
            with pytest.raises(ReconciliationRequired) as refusal:
                await caller.call("PublishReview", review_request(work))
    assert refusal.value.status == "running"
    assert [each["status"] for each in await bench.attempts(work)] == ["running"]
    assert len(bench.requests(work)) == len(bench.remote_reviews(work)) == 1
