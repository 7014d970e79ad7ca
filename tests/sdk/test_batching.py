"""Calls that meet become one list; each keeps its own outcome, and its own fault."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

import pytest
from fencepost.batching import SET_APART_MAX, Batcher, BatchLimits
from fencepost.errors import DatabaseUnavailable, Draining, Internal

from tests.waiting import until

CALLER: ContextVar[str] = ContextVar("CALLER", default="nobody")
LIMITS = BatchLimits(items_max=100, bytes_max=100, large_item_bytes=50, large_items_bytes_max=200)


class PoisonError(Exception):
    """What a poisoned item makes the operation raise."""


@dataclass
class Desk:
    """A list operation whose round trips take until `gate` is set, and what it was given."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    lists: list[list[str]] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)
    fault: Exception = field(default_factory=PoisonError)

    async def take(self, items: Sequence[str]) -> list[str]:
        """Answers each item in capitals; one that says poison fails the whole list."""
        self.lists.append(list(items))
        self.callers.append(CALLER.get())
        await self.gate.wait()
        if any("poison" in item for item in items):
            raise self.fault
        return [item.upper() for item in items]


@pytest.fixture
def desk() -> Desk:
    """A desk whose gate is closed."""
    return Desk()


@pytest.fixture
def batcher(desk: Desk) -> Batcher[str, str]:
    """Batches of at most 100 items and 100 characters; more than 50 characters are large."""
    return Batcher(desk.take, size_bytes=len, limits=LIMITS)


def submitted(batcher: Batcher[str, str], *items: str) -> list["asyncio.Task[str]"]:
    """A caller for each item."""
    return [asyncio.create_task(batcher.submit(item)) for item in items]


async def begun(desk: Desk, lists: int = 1) -> None:
    """So many round trips are under way or done."""
    await until(lambda: len(desk.lists) == lists, what="a round trip")


async def test_an_idle_call_waits_for_nobody(desk: Desk, batcher: Batcher[str, str]) -> None:
    desk.gate.set()

    assert await batcher.submit("a") == "A"
    assert await batcher.submit("b") == "B"

    assert desk.lists == [["a"], ["b"]]


async def test_calls_that_arrive_during_a_round_trip_form_the_next_batch(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    first = submitted(batcher, "a")
    await begun(desk)
    later = submitted(batcher, "b", "c", "d")
    await asyncio.sleep(0)
    assert desk.lists == [["a"]]
    desk.gate.set()

    assert await asyncio.gather(*first, *later) == ["A", "B", "C", "D"]
    assert desk.lists == [["a"], ["b", "c", "d"]]


async def test_who_submits_again_when_answered_is_in_the_next_batch(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    async def submit_twice(name: str) -> None:
        await batcher.submit(f"{name}1")
        await batcher.submit(f"{name}2")

    first = asyncio.create_task(submit_twice("a"))
    await begun(desk)
    other = asyncio.create_task(submit_twice("b"))
    await asyncio.sleep(0)
    desk.gate.set()

    await asyncio.gather(first, other)

    assert desk.lists == [["a1"], ["b1", "a2"], ["b2"]]


async def test_a_batch_is_bounded_by_count_and_by_bytes(desk: Desk) -> None:
    limits = BatchLimits(items_max=3, bytes_max=10, large_item_bytes=50)
    batcher = Batcher(desk.take, size_bytes=len, limits=limits)
    desk.gate.set()

    items = ["a", "b", "c", "d", "e" * 6, "f" * 6, "g" * 12, "h"]
    await asyncio.gather(*submitted(batcher, *items))

    assert desk.lists == [["a", "b", "c"], ["d", "e" * 6], ["f" * 6], ["g" * 12], ["h"]]


async def test_a_poisoned_item_fails_alone(desk: Desk, batcher: Batcher[str, str]) -> None:
    desk.gate.set()

    outcomes = await asyncio.gather(
        *submitted(batcher, "a", "b", "poison", "c", "d"), return_exceptions=True
    )

    assert [o for o in outcomes if not isinstance(o, PoisonError)] == ["A", "B", "C", "D"]
    assert isinstance(outcomes[2], PoisonError)


async def test_a_fault_of_the_other_side_is_an_items_own(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    desk.fault = Internal(error_id="0a")
    desk.gate.set()

    outcomes = await asyncio.gather(*submitted(batcher, "a", "poison"), return_exceptions=True)

    assert outcomes == ["A", desk.fault]


async def test_a_refusal_of_the_list_is_everybodys_and_is_not_tried_again(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    desk.fault = DatabaseUnavailable()
    desk.gate.set()

    outcomes = await asyncio.gather(*submitted(batcher, "a", "poison"), return_exceptions=True)

    assert outcomes == [desk.fault, desk.fault]
    assert desk.lists == [["a", "poison"]]


async def test_when_many_fail_alone_the_rest_is_tried_once_more_and_given_up(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    desk.gate.set()
    items = ["poison"] * 16

    outcomes = await asyncio.gather(*submitted(batcher, *items), return_exceptions=True)

    assert all(isinstance(outcome, PoisonError) for outcome in outcomes)
    assert [len(each) for each in desk.lists].count(1) == SET_APART_MAX
    assert len(desk.lists[-1]) == 8


async def test_a_missing_outcome_is_a_fault_and_nobody_gets_anothers(desk: Desk) -> None:
    async def forgetful(items: Sequence[str]) -> list[str]:
        return [item.upper() for item in items if item != "b"]

    batcher = Batcher(forgetful, size_bytes=len, limits=LIMITS)

    outcomes = await asyncio.gather(*submitted(batcher, "a", "b", "c"), return_exceptions=True)

    assert [outcomes[0], outcomes[2]] == ["A", "C"]
    assert isinstance(outcomes[1], ValueError)


async def test_who_is_cancelled_while_waiting_is_not_sent(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    first = submitted(batcher, "a")
    await begun(desk)
    leaving, staying = submitted(batcher, "b", "c")
    await asyncio.sleep(0)
    leaving.cancel()
    desk.gate.set()

    assert await asyncio.gather(*first, staying) == ["A", "C"]
    assert leaving.cancelled()
    assert desk.lists == [["a"], ["c"]]


async def test_who_is_cancelled_during_the_round_trip_leaves_it_to_the_others(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    leaving, staying = submitted(batcher, "a", "b")
    await begun(desk)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    desk.gate.set()

    assert await staying == "B"
    assert desk.lists == [["a", "b"]]


async def test_a_batch_runs_in_no_callers_context(desk: Desk, batcher: Batcher[str, str]) -> None:
    CALLER.set("acme")
    desk.gate.set()

    await batcher.submit("a")

    assert desk.callers == ["nobody"]


async def test_large_items_go_beside_the_batch_within_their_budget(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    large = submitted(batcher, "x" * 90, "y" * 90, "z" * 90)
    small = submitted(batcher, "a")
    await begun(desk, 3)
    assert [each[0][0] for each in desk.lists] == ["x", "y", "a"]

    desk.gate.set()

    assert [each[0] for each in await asyncio.gather(*large, *small)] == ["X", "Y", "Z", "A"]
    assert len(desk.lists) == 4


async def test_an_item_beyond_the_whole_budget_goes_alone(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    other, huge = submitted(batcher, "x" * 60, "y" * 900)
    await begun(desk)
    desk.gate.set()

    await asyncio.gather(other, huge)

    assert len(desk.lists) == 2


async def test_a_large_item_that_leaves_gives_its_room_to_the_next(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    first, leaving, last = submitted(batcher, "x" * 150, "y" * 150, "z" * 50 + "!")
    await begun(desk)
    leaving.cancel()
    desk.gate.set()
    await asyncio.gather(first, last)

    await batcher.close()

    assert len(desk.lists) == 2


async def test_closing_answers_everyone_and_lets_nobody_in(
    desk: Desk, batcher: Batcher[str, str]
) -> None:
    first = submitted(batcher, "a")
    await begun(desk)
    later = submitted(batcher, "b")
    await asyncio.sleep(0)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    with pytest.raises(Draining):
        await batcher.submit("c")
    assert not closing.done()
    desk.gate.set()

    await closing

    assert all(task.done() for task in (*first, *later))
    assert [await each for each in later] == ["B"]


async def test_closing_waits_for_large_items(desk: Desk, batcher: Batcher[str, str]) -> None:
    [large] = submitted(batcher, "x" * 60)
    await begun(desk)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    assert not closing.done()
    desk.gate.set()

    await closing

    assert large.done()


async def test_an_idle_batcher_closes_at_once(batcher: Batcher[str, str]) -> None:
    await batcher.close()

    with pytest.raises(Draining):
        await batcher.submit("a")


async def test_an_operation_that_was_cancelled_leaves_nobody_waiting() -> None:
    async def cut_off(_items: Sequence[str]) -> list[str]:
        raise asyncio.CancelledError

    batcher = Batcher(cut_off, size_bytes=len, limits=LIMITS)
    [task] = submitted(batcher, "a")

    await asyncio.wait([task])

    assert task.cancelled()
