"""Goal: a background duty comes again whatever happens, can be woken, and stops in order.

Method: ticks that count, wait and fail; the period is either far too long or very short.
"""

import asyncio

import pytest
from fencepost.errors import DatabaseUnavailable
from structlog.testing import capture_logs

from shared.metrics import REGISTRY
from shared.ticking import Ticker
from tests.waiting import until

HOUR_MS = 3_600_000


class Duty:
    """Counts its ticks; does what a test says."""

    def __init__(self) -> None:
        self.ticks = 0
        self.failures: list[Exception] = []
        self.more = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def tick(self) -> bool:
        await self.gate.wait()
        self.ticks += 1
        if self.failures:
            raise self.failures.pop(0)
        self.more -= 1
        return self.more > 0


@pytest.fixture
def duty() -> Duty:
    return Duty()


async def test_it_ticks_at_once_and_then_again_and_again(duty: Duty) -> None:
    ticker = Ticker("test", period_ms=1, tick=duty.tick)
    ticker.start()
    await until(lambda: duty.ticks > 5, what="ticks")
    await ticker.stop()
    assert ticker.name == "test"
    before = duty.ticks
    ticker.wake()
    assert duty.ticks == before


async def test_a_wake_brings_the_next_tick_at_once(duty: Duty) -> None:
    ticker = Ticker("test", period_ms=HOUR_MS, tick=duty.tick)
    ticker.start()
    await until(lambda: duty.ticks == 1, what="the first tick")
    ticker.wake()
    await until(lambda: duty.ticks == 2, what="the woken tick")
    await ticker.stop()


async def test_a_wake_during_a_tick_is_not_lost(duty: Duty) -> None:
    duty.gate.clear()
    ticker = Ticker("test", period_ms=HOUR_MS, tick=duty.tick)
    ticker.start()
    await asyncio.sleep(0)
    ticker.wake()
    duty.gate.set()
    await until(lambda: duty.ticks == 2, what="the tick after")
    await ticker.stop()


async def test_work_that_is_left_is_done_without_a_pause(duty: Duty) -> None:
    duty.more = 4
    ticker = Ticker("test", period_ms=HOUR_MS, tick=duty.tick)
    ticker.start()
    await until(lambda: duty.ticks == 4, what="all the work")
    await ticker.stop()


async def test_a_failing_tick_is_told_and_counted_and_the_next_one_comes(duty: Duty) -> None:
    duty.failures = [ValueError("boom"), DatabaseUnavailable(), DatabaseUnavailable()]
    before = failed("failing")
    ticker = Ticker("failing", period_ms=1, tick=duty.tick)
    with capture_logs() as entries:
        ticker.start()
        await until(lambda: duty.ticks > 4, what="ticks after the failures")
        await ticker.stop()
    levels = [entry["log_level"] for entry in entries]
    assert levels == ["error", "warning", "info"]
    assert failed("failing") == before + 3


async def test_stop_waits_for_the_tick_that_runs(duty: Duty) -> None:
    duty.gate.clear()
    ticker = Ticker("test", period_ms=HOUR_MS, tick=duty.tick)
    ticker.start()
    await asyncio.sleep(0)
    stopping = asyncio.create_task(ticker.stop())
    await asyncio.sleep(0)
    duty.gate.set()
    await stopping
    assert duty.ticks == 1


async def test_a_tick_that_hangs_is_cancelled_when_time_is_up(duty: Duty) -> None:
    duty.gate.clear()
    ticker = Ticker("test", period_ms=HOUR_MS, tick=duty.tick)
    ticker.start()
    await asyncio.sleep(0)
    await ticker.stop(within_s=0.05)
    assert duty.ticks == 0


async def test_nothing_ticks_while_it_may_not(duty: Duty) -> None:
    may_tick = False
    ticker = Ticker("test", period_ms=1, tick=duty.tick)
    asked = 0

    def allowed() -> bool:
        nonlocal asked
        asked += 1
        return may_tick

    ticker.start(may_tick=allowed)
    await until(lambda: asked > 3, what="the question")
    assert duty.ticks == 0
    may_tick = True
    await until(lambda: duty.ticks > 0, what="ticks")
    await ticker.stop()


async def test_a_ticker_that_never_started_stops(duty: Duty) -> None:
    await Ticker("test", period_ms=1, tick=duty.tick).stop()


def failed(loop: str) -> float:
    labels = {"loop": loop, "outcome": "failed"}
    return REGISTRY.get_sample_value("background_ticks_total", labels) or 0
