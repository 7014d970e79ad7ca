"""A server that fell silent is noticed, though its connection stays open."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fencepost import channel
from fencepost.channel import ChannelSettings, connect
from fencepost.dispatcher.v1.work_pb2 import Hello, WorkRequest
from fencepost.dispatcher.v1.work_pb2_grpc import DispatchServiceStub
from fencepost.errors import FencepostError
from grpc import StatusCode

SESSION_ID = "9b2f1c7e-52fb-4a3c-8a46-3c4a2f3a7f01"
NOTICED_WITHIN_S = 10.0
SERVER = """
import asyncio
from tests.shared.rpc.served import serving

async def main():
    async with serving() as served:
        print(served.server.address, served.api_key, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def server() -> AsyncIterator[asyncio.subprocess.Process]:
    """A server as a process of its own, which tells its address and a key."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    yield process
    process.kill()
    await process.wait()


async def test_a_session_with_a_server_that_fell_silent_ends(
    server: asyncio.subprocess.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "KEEPALIVE_MS", 1_000)
    monkeypatch.setattr(channel, "PING_TIMEOUT_MS", 1_000)
    assert server.stdout is not None
    target, api_key = (await server.stdout.readline()).decode().split()
    async with connect(ChannelSettings(target=target, api_key=api_key)) as opened:
        session = DispatchServiceStub(opened).Work()
        await session.write(WorkRequest(hello=Hello(session_id=SESSION_ID, queues=["reviews"])))
        await session.read()
        server.send_signal(signal.SIGSTOP)
        with pytest.raises(FencepostError) as lost:
            async with asyncio.timeout(NOTICED_WITHIN_S):
                await session.read()
    assert lost.value.code is StatusCode.UNAVAILABLE
