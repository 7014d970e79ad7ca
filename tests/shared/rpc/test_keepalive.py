"""A client that fell silent is noticed; one that is only quiet is let be."""

import asyncio
import signal
import sys

import pytest
from fencepost import channel
from fencepost.channel import ChannelSettings, channel_options
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest
from fencepost.dispatcher.v1.intents_pb2_grpc import IntentServiceStub
from grpc import ChannelConnectivity

from shared.rpc import server
from shared.rpc.server import server_options
from tests.shared.rpc.served import serving, settings_for
from tests.waiting import until

KEEPALIVE_MS = 1_000
PINGS = 6
WORKER = """
import asyncio, sys, uuid
from fencepost.channel import ChannelSettings, connect
from fencepost.dispatcher.v1.work_pb2 import Hello, WorkRequest
from fencepost.dispatcher.v1.work_pb2_grpc import DispatchServiceStub

async def main():
    async with connect(ChannelSettings(target=sys.argv[1], api_key=sys.argv[2])) as channel:
        session = DispatchServiceStub(channel).Work()
        hello = Hello(session_id=str(uuid.uuid4()), queues=["reviews"])
        await session.write(WorkRequest(hello=hello))
        await session.read()
        print("welcome", flush=True)
        await session.read()

asyncio.run(main())
"""


async def test_the_session_of_a_worker_that_fell_silent_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "KEEPALIVE_MS", KEEPALIVE_MS)
    monkeypatch.setattr(server, "PING_TIMEOUT_MS", KEEPALIVE_MS)
    async with serving() as served:
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER, served.server.address, served.api_key),
            stdout=asyncio.subprocess.PIPE,
        )
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"welcome\n"
        # Its connection stays open, as if the network swallowed everything.
        worker.send_signal(signal.SIGSTOP)
        await until(lambda: served.sessions.ended, what="the session to end")
        worker.kill()
        await worker.wait()


def test_our_clients_ping_no_more_often_than_the_server_lets_them() -> None:
    ours = dict(channel_options(ChannelSettings(target="127.0.0.1:1")))
    theirs = dict(server_options(settings_for()))
    admitted_ms = theirs["grpc.http2.min_ping_interval_without_data_ms"]
    assert int(ours["grpc.keepalive_time_ms"]) > admitted_ms
    permit = "grpc.keepalive_permit_without_calls"
    assert (ours[permit], theirs[permit]) == (1, 1)


async def test_a_channel_without_calls_is_not_thrown_off_for_its_pings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(settings: ChannelSettings) -> list[tuple[str, str | int]]:
        # Without this gRPC itself lets a minute pass before a third ping without data.
        return [*channel_options(settings), ("grpc.http2.max_pings_without_data", 0)]

    monkeypatch.setattr(channel, "KEEPALIVE_MS", KEEPALIVE_MS)
    monkeypatch.setattr(channel, "channel_options", hasty)
    monkeypatch.setattr(server, "CLIENT_PINGS_APART_MS", KEEPALIVE_MS // 2)
    async with serving() as served:
        quiet = served.channel()
        await IntentServiceStub(quiet).GetIntent(GetIntentRequest(intent_id=1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PINGS * KEEPALIVE_MS / 1000):
                await quiet.wait_for_state_change(ChannelConnectivity.READY)
