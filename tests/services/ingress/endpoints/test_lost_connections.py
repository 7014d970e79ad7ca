"""The answer to a COMMIT is lost: what was changed is told all the same, and not changed twice."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from shared.database import Database
from shared.schema.grants import Service
from tests.database_proxy import COMMIT, DatabaseProxy
from tests.services.ingress.endpoints.office import NEXT, Office, admin
from tests.services.ingress.pulls import settings_of


@pytest.fixture
async def proxy(service_url: Callable[[Service], str]) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy.before(service_url("ingress")) as proxy:
        yield proxy


@pytest.fixture
async def far(office: Office, proxy: DatabaseProxy) -> AsyncIterator[Office]:
    """The same office, whose connections can be cut."""
    async with Database.create(settings_of(proxy.url()), application_name="ingress") as database:
        yield replace(office, database=database)


@pytest.mark.guarantee("X6", "W7")
async def test_a_made_endpoint_is_told_as_made(far: Office, proxy: DatabaseProxy) -> None:
    proxy.trap(COMMIT, "lose the answer", after=b"INSERT INTO endpoints")
    made = await far.put()
    assert (proxy.trapped, made.created) == (1, True)
    assert made.changes
    assert len(await far.rows.all("endpoint_secrets")) == 1
    assert len(await far.audited()) == 1


@pytest.mark.guarantee("X6", "I5", "W7")
async def test_a_rotated_secret_is_told_as_rotated(far: Office, proxy: DatabaseProxy) -> None:
    await far.put()
    proxy.trap(COMMIT, "lose the answer", after=b"INSERT INTO endpoint_secrets")
    rotated = await far.rotate(NEXT)
    assert (proxy.trapped, rotated.rotated) == (1, True)
    assert len(await far.rows.all("endpoint_secrets")) == 2
    assert len(await far.audited()) == 2


@pytest.mark.guarantee("X6", "W7")
async def test_a_disabled_endpoint_is_disabled_once(far: Office, proxy: DatabaseProxy) -> None:
    await far.put()
    proxy.trap(COMMIT, "lose the answer", after=b"SET disabled_at")
    disabled = await far.operations.disable(admin("acme"), "main", "")
    assert proxy.trapped == 1
    assert disabled.row.disabled_at is not None
    assert len(await far.audited()) == 2


@pytest.mark.guarantee("X6")
async def test_what_was_lost_before_the_commit_is_changed_by_the_second_run(
    far: Office, proxy: DatabaseProxy
) -> None:
    proxy.trap(COMMIT, "lose the request", after=b"INSERT INTO endpoints")
    made = await far.put()
    assert (proxy.trapped, made.created) == (1, True)
    assert len(await far.audited()) == 1
