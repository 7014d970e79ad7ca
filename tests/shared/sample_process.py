"""The sample service as a process of its own, and what it logs."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fencepost.channel import Channel, ChannelSettings, connect

from tests.waiting import until

START_S = 20.0


@dataclass
class SampleProcess:
    """A process that may still run."""

    process: asyncio.subprocess.Process
    api_key: str
    log: list[dict[str, Any]] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"event": line.decode().rstrip()})

    @property
    def events(self) -> list[str]:
        """What happened, in order."""
        return [str(entry["event"]) for entry in self.log]

    def entry(self, event: str) -> dict[str, Any] | None:
        """The first entry of this event."""
        return next((entry for entry in self.log if entry["event"] == event), None)

    async def logged(self, event: str, *, deadline_s: float = START_S) -> dict[str, Any]:
        """The same, waited for."""
        return await until(lambda: self.entry(event), deadline_s=deadline_s, what=f"{event!r}")

    async def exited(self, *, within_s: float = START_S) -> int:
        """The exit code."""
        async with asyncio.timeout(within_s):
            return await self.process.wait()

    def send(self, received: signal.Signals) -> None:
        self.process.send_signal(received)

    async def channel(self) -> Channel:
        """A channel with the process's key."""
        address = (await self.logged("serving"))["grpc"]
        channel = connect(ChannelSettings(target=address, api_key=self.api_key))
        self.channels.append(channel)
        return channel

    async def get(self, path: str) -> httpx.Response:
        """From the admin port, or the service's own page."""
        serving = await self.logged("serving")
        address = serving["http"][0] if path == "/page" else serving["admin"]
        async with httpx.AsyncClient() as client:
            return await client.get(f"http://{address}{path}")


@asynccontextmanager
async def sample(
    database_url: str, *, api_key: str = "", **settings: str
) -> AsyncIterator[SampleProcess]:
    """Starts one; kills what is left of it at the end."""
    variables = {f"SAMPLE_{name.upper()}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.shared.sample_service",
        env={
            **os.environ,  # noqa: TID251 - a process needs its surroundings
            "SAMPLE_DATABASE_URL": database_url,
            "SAMPLE_LOG_FORMAT": "json",
            **variables,
        },
        stderr=asyncio.subprocess.PIPE,
    )
    running = SampleProcess(process, api_key)
    reader = asyncio.create_task(running.read_log())
    try:
        yield running
    finally:
        for channel in running.channels:
            await channel.close()
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reader
