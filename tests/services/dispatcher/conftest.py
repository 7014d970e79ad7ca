"""A dispatcher's rooms on a real database, as its own role."""

from collections.abc import AsyncIterator, Callable

import pytest

from shared.schema.grants import Service
from tests.services.dispatcher.desk import Desk, opened


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    """One dispatcher."""
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk
