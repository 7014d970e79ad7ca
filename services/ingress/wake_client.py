"""Tells every dispatcher that new work waits: best effort, beside the answers, never before them.

With every wake lost, work starts within the dispatcher's poll interval (I11).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace

from fencepost.channel import Channel, connect
from fencepost.dispatcher.v1 import work_pb2, work_pb2_grpc
from fencepost.errors import FencepostError
from fencepost.tls import CertificateUnreadableError
from grpc import StatusCode

from services.ingress.metrics import WAKES
from services.ingress.settings import IngressSettings
from shared.rpc.client import certificate_hint, channel_settings
from shared.settings import host_and_port
from shared.ticking import Ticker

IDLE_TICK_MS = 60_000
"""Between wakes the ticker has nothing to do; this is how often it finds that out."""

Resolve = Callable[[str, int], Awaitable[list[str]]]

DISPATCHER = "dispatcher"

RESOLVED_FOR_S = 1.0
QUEUES_MAX = 100
"""Queues in one wake; the contract's limit."""


class Waker:
    """Collects queues and wakes with all of them at once; one wake is under way at a time."""

    def __init__(self, settings: IngressSettings, resolve: Resolve | None = None) -> None:
        self._resolve = resolve or Resolver()
        self._host, self._port = host_and_port(settings.dispatcher_address)
        self._reach = channel_settings(settings, DISPATCHER, deadline_ms=settings.wake_timeout_ms)
        self._hint = certificate_hint(settings, DISPATCHER, self._reach)
        self._timeout_s = settings.wake_timeout_ms / 1000
        self._queues: set[str] = set()
        self._channels: dict[str, Channel] = {}
        self.ticker = Ticker("wake dispatchers", period_ms=IDLE_TICK_MS, tick=self.tick)

    def wake(self, queue: str) -> None:
        """Notes that new work waits on a queue, and returns at once."""
        self._queues.add(queue)
        self.ticker.wake()

    async def tick(self) -> bool:
        """Sends what was noted to every address; raises FencepostError if one did not hear.

        Returns whether more was noted than fits one wake.
        """
        queues = sorted(self._queues)[:QUEUES_MAX]
        if not queues:
            return False
        self._queues.difference_update(queues)
        answers = await asyncio.gather(
            *(self._send(address, queues) for address in await self._addresses())
        )
        missed = [answer for answer in answers if answer is not None]
        WAKES.labels("heard").inc(len(answers) - len(missed))
        WAKES.labels("lost").inc(len(missed))
        if missed:
            raise missed[0]
        return bool(self._queues)

    async def close(self) -> None:
        """Closes the channels."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _send(self, address: str, queues: list[str]) -> FencepostError | None:
        try:
            stub = work_pb2_grpc.DispatchServiceStub(self._channel(address))
            await stub.Wake(work_pb2.WakeRequest(queues=queues), timeout=self._timeout_s)
        except FencepostError as missed:
            return self._told(missed)
        except CertificateUnreadableError as error:
            return FencepostError(str(error), code=StatusCode.UNAVAILABLE)
        return None

    def _told(self, missed: FencepostError) -> FencepostError:
        if missed.code is not StatusCode.UNAVAILABLE or not self._hint:
            return missed
        return FencepostError(f"{missed.message}; {self._hint}", code=missed.code)

    def _channel(self, address: str) -> Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = connect(replace(self._reach, target=address))
            self._channels[address] = channel
        return channel

    async def _addresses(self) -> list[str]:
        """Where dispatchers are now; channels to where they were are closed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                addresses = await self._resolve(self._host, self._port)
        except (OSError, TimeoutError) as error:
            WAKES.labels("lost").inc()
            message = f"{self._host} has no address"
            raise FencepostError(message, code=StatusCode.UNAVAILABLE) from error
        for gone in self._channels.keys() - set(addresses):
            await self._channels.pop(gone).close()
        return addresses


class Resolver:
    """Looks a host up, once a second at most: that takes a thread, and wakes are many."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], tuple[float, list[str]]] = {}

    async def __call__(self, host: str, port: int) -> list[str]:
        """Every address of a host, as gRPC targets; raises OSError when it has none."""
        loop = asyncio.get_running_loop()
        until_s, targets = self._found.get((host, port), (0.0, []))
        if loop.time() >= until_s:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            targets = sorted({_target(family, where) for family, _, _, _, where in found})
            self._found[host, port] = (loop.time() + RESOLVED_FOR_S, targets)
        return targets


def _target(family: int, where: tuple[object, ...]) -> str:
    host, port = where[:2]
    return f"ipv6:[{host}]:{port}" if family == socket.AF_INET6 else f"ipv4:{host}:{port}"
