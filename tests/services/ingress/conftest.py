"""Intake on a real database, as ingress's own role."""

from collections.abc import AsyncIterator, Callable

import pytest

from services.ingress.settings import IngressSettings
from shared.schema.grants import Service
from tests.services.ingress.desk import Desk, opened
from tests.services.ingress.pulls import settings_of


@pytest.fixture
def settings(service_url: Callable[[Service], str]) -> IngressSettings:
    """Settings of an ingress that is not served."""
    return settings_of(service_url("ingress"))


@pytest.fixture
async def desk(owner_url: str, settings: IngressSettings) -> AsyncIterator[Desk]:
    """Intake with its endpoint; `woken` lists the queues it told of."""
    async with opened(owner_url, settings) as desk:
        yield desk
