"""A server for the tests that need no other than the usual one."""

from collections.abc import AsyncIterator

import pytest

from tests.shared.rpc.served import Served, serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served
