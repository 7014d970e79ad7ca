"""Goal: a service starts whatever the database does, tells the truth, and stops in order.

Method: a sample service as a process, on a real database; signals, and a network that is cut.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.common.v1.server_info_pb2 import GetServerInfoRequest
from fencepost.common.v1.server_info_pb2_grpc import ServerInfoServiceStub
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest
from fencepost.dispatcher.v1.intents_pb2_grpc import IntentServiceStub
from fencepost.errors import Draining, FencepostError, KeyRevoked, SchemaMismatch
from grpc import aio
from grpc_reflection.v1alpha.reflection_pb2 import (
    ServerReflectionRequest,
    ServerReflectionResponse,
)
from psycopg import sql

from shared.credentials import new_credential
from shared.schema.grants import Service
from shared.schema.revision import SCHEMA_REVISION
from shared.shutdown import EXIT_HUNG
from tests.database_proxy import DatabaseProxy
from tests.rows import Rows
from tests.shared.collector import Collector
from tests.shared.sample_process import SampleProcess, sample
from tests.shared.sample_service import NEVER_ENDS, WAITS_FOR_DRAIN
from tests.waiting import until

GRACE_S = 2.0
BUSY_S = 8.0
"""A busy machine may add so much; a process that is cut at last has 10 s beyond the grace."""

ONLY = {"singleton": 1}
GET_INTENT = "fencepost.dispatcher.v1.IntentService/GetIntent"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
REVOKED_WITHIN_S = 5.0


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await psycopg.AsyncConnection.connect(owner_url, autocommit=True) as owner:
        yield Rows(owner)


@pytest.fixture
async def api_key(rows: Rows) -> str:
    credential = new_credential()
    await rows.insert(
        "api_keys",
        key_id=credential.key_id,
        tenant="acme",
        label="test",
        scopes=["intents_read"],
        secret_sha256=credential.secret_sha256,
        created_by="test",
    )
    return credential.text


@pytest.fixture
def url(service_url: Callable[[Service], str]) -> str:
    return service_url("dispatcher")


async def call(process: SampleProcess, intent_id: int = 1) -> None:
    channel = await process.channel()
    await IntentServiceStub(channel).GetIntent(GetIntentRequest(intent_id=intent_id))


async def open_stream(process: SampleProcess) -> Any:
    """A stream that has been answered once, and stays open."""
    stream = (await process.channel()).stream_stream(
        REFLECTION,
        ServerReflectionRequest.SerializeToString,
        ServerReflectionResponse.FromString,
    )()
    await stream.write(ServerReflectionRequest(list_services=""))
    await stream.read()
    return stream


async def ready(process: SampleProcess) -> bool:
    return (await process.get("/readyz")).status_code == 200


async def healthy(process: SampleProcess) -> bool:
    address = (await process.logged("serving"))["grpc"]
    async with aio.insecure_channel(address) as channel:
        check: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/grpc.health.v1.Health/Check"
        )
        return await check(b"") == b"\x08\x01"


async def test_it_serves_and_stops_in_order(url: str, api_key: str) -> None:
    async with sample(url, api_key=api_key) as process:
        await until(lambda: healthy(process), what="health SERVING")
        assert await ready(process)
        info = await ServerInfoServiceStub(await process.channel()).GetServerInfo(
            GetServerInfoRequest()
        )
        assert (info.service, info.schema_revision_found) == ("sample", SCHEMA_REVISION)
        await process.logged("tick")
        under_way = asyncio.gather(call(process, WAITS_FOR_DRAIN), process.get("/page"))
        await process.logged("call begun")
        await process.logged("page begun")
        process.send(signal.SIGTERM)
        await process.logged("stopping")
        assert await process.exited() == 0
        _, page = await under_way
        assert page.text == "at last"
    events = process.events
    order = [events.index(each) for each in ("stopping", "call ended", "closed", "stopped")]
    assert order == sorted(order)
    assert "tick" not in events[events.index("closed") :]


async def test_a_call_that_does_not_end_is_told_and_the_process_goes_within_the_grace(
    url: str, api_key: str
) -> None:
    async with sample(url, api_key=api_key) as process:
        address = (await process.logged("serving"))["grpc"]
        # Without the service config, so that the refusal is seen and not retried.
        async with aio.insecure_channel(address) as channel:
            send: aio.UnaryUnaryMultiCallable[GetIntentRequest, bytes] = channel.unary_unary(
                "/fencepost.dispatcher.v1.IntentService/GetIntent",
                GetIntentRequest.SerializeToString,
            )
            metadata = (("authorization", f"Bearer {api_key}"),)
            hanging = send(GetIntentRequest(intent_id=NEVER_ENDS), metadata=metadata)
            await process.logged("call begun")
            began = time.monotonic()
            process.send(signal.SIGINT)
            await until(lambda: says_draining(process), what="the admin port to say it")
            assert await hanging.details() == str(Draining())
        assert await process.exited() == 0
        assert time.monotonic() - began < GRACE_S + BUSY_S


async def test_a_stop_that_hangs_in_whatever_is_cut_within_its_limit(url: str) -> None:
    limit = {"drain_grace_ms": "0", "after_calls_s": "0.5", "hangs_at_the_end": "true"}
    async with sample(url, **limit) as process:
        await process.logged("serving")
        process.send(signal.SIGTERM)
        await process.logged("hanging")
        assert await process.exited() == EXIT_HUNG
    assert process.events[-1] == "the stop hung and was cut"


async def test_spans_that_end_in_the_drain_are_exported_before_the_exit(
    url: str, api_key: str
) -> None:
    async with (
        Collector.running() as collector,
        sample(url, api_key=api_key, **exporting(collector)) as process,
    ):
        under_way = asyncio.ensure_future(call(process, WAITS_FOR_DRAIN))
        await process.logged("call begun")
        process.send(signal.SIGTERM)
        await under_way
        assert await process.exited() == 0
        assert GET_INTENT in [span.name for span in collector.spans]


def exporting(collector: Collector) -> dict[str, str]:
    """Settings of a process whose collector may be slow."""
    return {"otlp_endpoint": collector.endpoint, "otlp_timeout_ms": "10000"}


async def says_draining(process: SampleProcess) -> bool:
    return "draining" in (await process.get("/readyz")).json()["problems"]


async def test_a_stream_of_a_revoked_key_is_ended_in_time(
    url: str, rows: Rows, api_key: str
) -> None:
    async with sample(url, api_key=api_key) as process:
        stream = await open_stream(process)
        where = {"key_id": api_key.split("_")[1]}
        await rows.change("api_keys", where, ends_at=sql.SQL("clock_timestamp()"))
        async with asyncio.timeout(REVOKED_WITHIN_S):
            with pytest.raises(KeyRevoked):
                await stream.read()


async def test_the_same_signal_again_ends_it_at_once(url: str, api_key: str) -> None:
    async with sample(url, api_key=api_key, drain_grace_ms="60000") as process:
        hanging = asyncio.ensure_future(call(process, NEVER_ENDS))
        await process.logged("call begun")
        for each in (signal.SIGINT, signal.SIGTERM):
            process.send(each)
        await until(lambda: process.events.count("stopping") == 2, what="both signals")
        assert process.process.returncode is None
        process.send(signal.SIGTERM)
        assert await process.exited() == 128 + signal.SIGTERM
        with pytest.raises(FencepostError):
            await hanging


async def test_without_a_database_it_lives_is_not_ready_and_becomes_so_by_itself(
    url: str, api_key: str
) -> None:
    async with DatabaseProxy.before(url) as proxy:
        await proxy.cut()
        async with sample(
            proxy.url(), api_key=api_key, database_connect_timeout_ms="500"
        ) as process:
            assert (await process.get("/livez")).status_code == 200
            refused = await process.get("/readyz")
            assert refused.status_code == 503
            assert "is away" in refused.json()["problems"]["database"]
            assert not await healthy(process)
            assert "tick" not in process.events
            await proxy.restore()
            await until(lambda: healthy(process), deadline_s=20, what="health SERVING")
            await until(lambda: ready(process), what="readiness")
            await call(process)
            await process.logged("tick")
            await proxy.cut()
            await until(lambda: not_healthy(process), deadline_s=20, what="health NOT_SERVING")


async def not_healthy(process: SampleProcess) -> bool:
    return not await healthy(process)


async def test_a_check_that_fails_by_itself_stops_the_health_until_it_works_again(
    url: str, rows: Rows
) -> None:
    async with sample(url) as process:
        await until(lambda: healthy(process), what="health SERVING")
        await rows.connection.execute(
            "REVOKE SELECT ON fencepost.schema_revision FROM fencepost_dispatcher"
        )
        await until(lambda: not_healthy(process), what="health NOT_SERVING")
        assert not await ready(process)
        await rows.connection.execute(
            "GRANT SELECT ON fencepost.schema_revision TO fencepost_dispatcher"
        )
        await until(lambda: healthy(process), what="health SERVING again")


@pytest.mark.guarantee("X3")
@pytest.mark.parametrize(
    "schema",
    [
        {"revision": SCHEMA_REVISION - 1, "oldest_code": 0},
        {"revision": SCHEMA_REVISION + 2, "oldest_code": SCHEMA_REVISION + 1},
    ],
    ids=["the schema is older than the code", "the code is older than the schema admits"],
)
async def test_it_does_not_start_on_a_schema_that_does_not_fit(
    url: str, rows: Rows, schema: dict[str, int]
) -> None:
    await rows.change("schema_revision", ONLY, **schema)
    async with sample(url) as process:
        assert await process.exited() == 1
    entry = process.entry("the service cannot start")
    assert entry is not None
    assert "python -m services migrate" in entry["why"]
    assert "serving" not in process.events


@pytest.mark.guarantee("X3")
async def test_it_does_not_start_on_a_database_that_was_never_migrated(
    url: str, rows: Rows
) -> None:
    await rows.connection.execute("DROP TABLE fencepost.schema_revision")
    async with sample(url) as process:
        assert await process.exited() == 1
    entry = process.entry("the service cannot start")
    assert entry is not None
    assert "the database is at 0" in entry["why"]


@pytest.mark.guarantee("X3")
async def test_older_code_runs_on_a_newer_schema_that_admits_it(
    url: str, rows: Rows, api_key: str
) -> None:
    await rows.change("schema_revision", ONLY, revision=SCHEMA_REVISION + 1)
    async with sample(url, api_key=api_key) as process:
        await until(lambda: healthy(process), what="health SERVING")
        await call(process)


@pytest.mark.guarantee("X3")
async def test_a_schema_that_stops_to_fit_stops_the_service_until_it_fits_again(
    url: str, rows: Rows, api_key: str
) -> None:
    async with sample(url, api_key=api_key) as process:
        await until(lambda: healthy(process), what="health SERVING")
        stream = await open_stream(process)
        await rows.change("schema_revision", ONLY, oldest_code=SCHEMA_REVISION + 1)
        await until(lambda: not_healthy(process), what="health NOT_SERVING")
        with pytest.raises(SchemaMismatch):
            await stream.read()
        with pytest.raises(SchemaMismatch):
            await call(process)
        problems = (await process.get("/readyz")).json()["problems"]
        assert "python -m services migrate" in problems["schema"]
        ticks = process.events.count("tick")
        info_stub = ServerInfoServiceStub(await process.channel())
        info = await info_stub.GetServerInfo(GetServerInfoRequest())
        assert info.schema_revision_expected == SCHEMA_REVISION
        await rows.change("schema_revision", ONLY, oldest_code=SCHEMA_REVISION)
        await until(lambda: healthy(process), what="health SERVING again")
        await until(lambda: process.events.count("tick") > ticks, what="ticks again")


async def test_an_address_that_is_taken_is_told_in_a_sentence(url: str, api_key: str) -> None:
    async with sample(url, api_key=api_key) as first:
        serving = await first.logged("serving")
        for name in ("grpc_address", "admin_address"):
            taken = serving[name.removesuffix("_address")]
            async with sample(url, **{name: taken}) as second:
                assert await second.exited() == 1
            entry = second.entry("the service cannot start")
            assert entry is not None
            assert taken in entry["why"]


async def test_a_client_can_reach_it_only_with_a_key(url: str) -> None:
    async with sample(url) as process:
        address = (await process.logged("serving"))["grpc"]
        async with connect(ChannelSettings(target=address)) as channel:
            with pytest.raises(FencepostError) as refused:
                await ServerInfoServiceStub(channel).GetServerInfo(GetServerInfoRequest())
        assert refused.value.reason == "KEY_UNKNOWN"
