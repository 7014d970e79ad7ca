"""Lists are tried whole, until a row stays locked; then in parts for a while."""

import pytest

from services.dispatcher.dispatch import apart_operations
from services.dispatcher.dispatch.apart_operations import Patience, Way
from shared.database import RowLocked, Transaction
from tests.services.dispatcher.desk import Desk


class Work:
    """Meets a locked row whenever it goes over the whole list."""

    def __init__(self) -> None:
        self.ways: list[Way] = []

    async def __call__(self, _: Transaction, way: Way) -> Way:
        self.ways.append(way)
        if way == "whole":
            raise RowLocked
        return way


async def test_a_row_that_stays_locked_is_waited_for_in_full_once(desk: Desk) -> None:
    work, patience = Work(), Patience(desk.database)
    assert [await patience.run(work) for _ in range(3)] == ["parts"] * 3
    assert work.ways == ["whole", "parts", "parts", "parts"]


async def test_after_a_while_the_whole_is_tried_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, patience = Work(), Patience(desk.database)
    monkeypatch.setattr(apart_operations, "WARY_S", 0.0)
    assert [await patience.run(work) for _ in range(2)] == ["parts"] * 2
    assert work.ways == ["whole", "parts"] * 2
