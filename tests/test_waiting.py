"""Waiting ends with the first answer, or says what never came."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.waiting import until, until_sync


def answers(*given: str | None) -> Iterator[str | None]:
    yield from given


async def test_the_first_answer_is_returned() -> None:
    given = answers(None, "", "there")
    assert await until(lambda: next(given), what="an answer") == "there"


async def test_a_condition_may_be_awaited() -> None:
    given = answers(None, "there")

    async def ask() -> str | None:
        await asyncio.sleep(0)
        return next(given)

    assert await until(ask, what="an answer") == "there"


async def test_a_deadline_says_what_was_awaited() -> None:
    with pytest.raises(TimeoutError, match=r"waited 0\.0 s for a miracle; last answer: ''"):
        await until(lambda: "", deadline_s=0.0, what="a miracle")


def test_without_a_loop_the_first_answer_is_returned() -> None:
    given = answers(None, "there")
    assert until_sync(lambda: next(given), what="an answer") == "there"


def test_without_a_loop_a_deadline_says_what_was_awaited() -> None:
    with pytest.raises(TimeoutError, match="a miracle"):
        until_sync(lambda: None, deadline_s=0.0, what="a miracle")
