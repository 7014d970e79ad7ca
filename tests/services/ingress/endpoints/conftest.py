"""Endpoints on a real database."""

from collections.abc import AsyncIterator

import pytest

from services.ingress.settings import IngressSettings
from tests.services.ingress.endpoints.office import Office, opened


@pytest.fixture
async def office(owner_url: str, settings: IngressSettings) -> AsyncIterator[Office]:
    """Endpoints as ingress's role declares them."""
    async with opened(owner_url, settings) as office:
        yield office
