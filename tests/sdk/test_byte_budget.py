"""What is held at once stays within the bytes; who waits comes in turn."""

import asyncio

from fencepost.byte_budget import ByteBudget

from tests.waiting import until


class Holder:
    """Somebody who holds bytes until told to let go."""

    def __init__(self, budget: ByteBudget, size_bytes: int) -> None:
        self.holds = False
        self.let_go = asyncio.Event()
        self._budget, self._size_bytes = budget, size_bytes
        self.task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        async with self._budget.held(self._size_bytes):
            self.holds = True
            await self.let_go.wait()
        self.holds = False


async def all_have_had_a_turn(*holders: Holder) -> list[bool]:
    """Who holds, after each could begin."""
    for _ in range(3):
        await asyncio.sleep(0)
    return [holder.holds for holder in holders]


async def test_a_small_one_does_not_pass_a_large_one_that_waits() -> None:
    budget = ByteBudget(10)
    first, large, small = (Holder(budget, size) for size in (6, 8, 1))
    assert await all_have_had_a_turn(first, large, small) == [True, False, False]

    first.let_go.set()

    assert await all_have_had_a_turn(first, large, small) == [False, True, True]
    large.let_go.set()
    small.let_go.set()
    await asyncio.gather(large.task, small.task)


async def test_one_that_leaves_the_line_makes_way() -> None:
    budget = ByteBudget(10)
    first, large, small = (Holder(budget, size) for size in (6, 8, 4))
    assert await all_have_had_a_turn(first, large, small) == [True, False, False]

    large.task.cancel()

    await until(lambda: small.holds, what="the next in line to hold")
    first.let_go.set()
    small.let_go.set()
    await budget.idle()


async def test_room_that_was_given_to_a_cancelled_one_goes_on() -> None:
    budget = ByteBudget(10)
    async with budget.held(10):
        second = Holder(budget, 10)
        assert await all_have_had_a_turn(second) == [False]
    # The room is second's by now, and second has had no turn to learn it.
    second.task.cancel()
    await asyncio.wait([second.task])

    third = Holder(budget, 10)

    assert await all_have_had_a_turn(third) == [True]
    third.let_go.set()
    await third.task
