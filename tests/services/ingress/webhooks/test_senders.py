"""Who sends a body: bounded in number, in time and in silence."""

import asyncio
from collections.abc import Callable

import pytest

from services.ingress.webhooks.senders import Senders

MINUTE_MS = 60_000


class Sending:
    """One who sends until told to end."""

    def __init__(self, senders: Senders) -> None:
        self.ends = asyncio.Event()
        self.begun: asyncio.Future[Callable[[], None]] = asyncio.Future()
        self.task = asyncio.create_task(self._send(senders))

    async def _send(self, senders: Senders) -> None:
        async with senders.sending() as heard:
            self.begun.set_result(heard)
            await self.ends.wait()

    async def is_cut(self) -> bool:
        """Waits for its end, which comes by itself or not at all."""
        done, _ = await asyncio.wait({self.task}, timeout=30)
        return bool(done) and isinstance(self.task.exception(), TimeoutError)


async def begun(senders: Senders) -> Sending:
    sending = Sending(senders)
    await sending.begun
    return sending


@pytest.mark.guarantee("X4")
async def test_beyond_so_many_the_one_silent_for_the_longest_gives_way() -> None:
    senders = Senders(senders_max=2, timeout_ms=MINUTE_MS, silence_ms=MINUTE_MS)
    first, second = await begun(senders), await begun(senders)
    (await first.begun)()
    third = await begun(senders)
    assert await second.is_cut()
    fourth = await begun(senders)
    assert await first.is_cut()
    for sending in (third, fourth):
        sending.ends.set()
        await sending.task


@pytest.mark.guarantee("X4")
async def test_who_gave_way_cannot_come_back_by_sending() -> None:
    senders = Senders(senders_max=1, timeout_ms=MINUTE_MS, silence_ms=MINUTE_MS)
    first = await begun(senders)
    second = await begun(senders)
    (await first.begun)()
    assert await first.is_cut()
    second.ends.set()
    await second.task


@pytest.mark.guarantee("X4")
async def test_who_is_silent_for_too_long_is_cut() -> None:
    senders = Senders(senders_max=9, timeout_ms=MINUTE_MS, silence_ms=100)
    assert await (await begun(senders)).is_cut()


@pytest.mark.guarantee("X4")
async def test_who_trickles_is_cut_at_the_end_of_his_time() -> None:
    senders = Senders(senders_max=9, timeout_ms=200, silence_ms=MINUTE_MS)
    sending = await begun(senders)
    heard = await sending.begun
    heard()
    assert await sending.is_cut()


async def test_whose_body_has_come_makes_room() -> None:
    senders = Senders(senders_max=1, timeout_ms=MINUTE_MS, silence_ms=MINUTE_MS)
    for _ in range(2):
        sending = await begun(senders)
        sending.ends.set()
        await sending.task
