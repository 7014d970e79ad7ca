"""What a replica serves: as of a moment ago, or the last it read while the database is away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from fencepost.errors import DatabaseUnavailable, ResourceNotFound

from services.ingress.endpoints import snapshot
from services.ingress.endpoints.model import ForgeKind
from services.ingress.endpoints.snapshot import REFRESH_PERIOD_MS, Endpoints
from shared.database import Database, Transaction
from shared.schema.grants import Service
from shared.ticking import JITTER
from tests.database_proxy import DatabaseProxy
from tests.services.ingress.endpoints.office import (
    LIMIT_BYTES,
    NEXT,
    SECRET,
    Office,
    admin,
    declared,
)
from tests.services.ingress.pulls import settings_of
from tests.waiting import until

GITEA: dict[str, Any] = {"forge": ForgeKind.GITEA, "forge_instance": "code.example.org"}
HOLDS_WITHIN_MS = 5_000
READING_MS = 2_000
"""What one reading may take: the statement timeout."""


@pytest.fixture
async def proxy(service_url: Callable[[Service], str]) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy.before(service_url("ingress")) as proxy:
        yield proxy


@pytest.fixture
async def far(office: Office, proxy: DatabaseProxy) -> AsyncIterator[Endpoints]:
    """A replica whose database can be taken away."""
    settings = settings_of(proxy.url(), database_connect_timeout_ms=500)
    async with Database.create(settings, application_name="ingress") as database:
        yield replace(office, database=database).endpoints()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every miss reads anew."""
    monkeypatch.setattr(snapshot, "MISS_PAUSE_S", 0)


@pytest.mark.guarantee("I5")
async def test_what_was_rotated_or_disabled_holds_from_the_next_reading_on(office: Office) -> None:
    endpoints = office.endpoints()
    await office.put()
    assert (await endpoints.of_forge("github", "main")).secrets == (SECRET.encode(),)
    await office.rotate(NEXT)
    await endpoints.refresh()
    assert (await endpoints.of_forge("github", "main")).secrets == (NEXT.encode(), SECRET.encode())
    await office.operations.disable(admin("acme"), "main", "")
    await endpoints.refresh()
    for look in (endpoints.of_forge("github", "main"), endpoints.of_tenant("acme", "main")):
        with pytest.raises(ResourceNotFound):
            await look
    await office.put(secret=None, enable=True)
    await endpoints.refresh()
    assert (await endpoints.of_tenant("acme", "main")).name == "main"


def test_readings_are_close_enough_for_all_replicas_to_agree_within_five_seconds() -> None:
    assert REFRESH_PERIOD_MS * (1 + JITTER) + READING_MS < HOLDS_WITHIN_MS


@pytest.mark.usefixtures("eager")
async def test_what_is_new_is_found_at_once(office: Office) -> None:
    endpoints = office.endpoints()
    await endpoints.refresh()
    await office.put()
    assert (await endpoints.of_forge("github", "main")).tenant == "acme"


async def test_who_asks_for_what_is_not_there_does_not_ask_the_database_each_time(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = 0

    async def counted(tx: Transaction) -> Any:
        nonlocal readings
        readings += 1
        return await rows(tx)

    rows = snapshot._rows
    monkeypatch.setattr(snapshot, "_rows", counted)
    monkeypatch.setattr(snapshot, "MISS_PAUSE_S", 60)
    endpoints = office.endpoints()
    looks = [endpoints.of_forge("github", f"none-{number}") for number in range(20)]
    found = await asyncio.gather(*looks, return_exceptions=True)
    assert all(isinstance(each, ResourceNotFound) for each in found)
    assert readings == 1


async def reads(endpoints: Endpoints) -> bool:
    """Whether a reading succeeds."""
    try:
        await endpoints.refresh()
    except DatabaseUnavailable:
        return False
    return True


@pytest.mark.guarantee("I2")
async def test_while_the_database_is_away_the_last_reading_serves(
    office: Office, far: Endpoints, proxy: DatabaseProxy
) -> None:
    await office.put()
    await proxy.cut()
    with pytest.raises(DatabaseUnavailable):
        await far.of_forge("github", "main")
    await proxy.restore()
    await until(lambda: reads(far), what="the database to be reached again")
    await proxy.cut()
    with pytest.raises(DatabaseUnavailable):
        await far.refresh()
    assert (await far.of_forge("github", "main")).secrets == (SECRET.encode(),)


@pytest.mark.usefixtures("eager")
async def test_what_is_not_known_while_the_database_is_away_is_not_said_to_be_absent(
    office: Office, far: Endpoints, proxy: DatabaseProxy
) -> None:
    await office.put()
    await far.refresh()
    await proxy.cut()
    with pytest.raises(DatabaseUnavailable):
        await far.of_forge("github", "another")


@pytest.mark.guarantee("X8")
async def test_a_name_is_served_to_whom_it_was_first_and_others_name_themselves(
    office: Office,
) -> None:
    await office.put()
    await office.put(tenant="other", secret=NEXT)
    await office.put(declared(name="mine"), tenant="other", secret=NEXT)
    endpoints = office.endpoints()
    assert (await endpoints.of_forge("github", "main")).tenant == "acme"
    assert (await endpoints.of_forge("github", "main", "other")).secrets == (NEXT.encode(),)
    assert endpoints.webhook_path("acme", "github", "main") == "/webhooks/github/main"
    assert endpoints.webhook_path("other", "github", "main") == "/webhooks/github/other/main"
    assert endpoints.webhook_path("other", "github", "mine") == "/webhooks/github/mine"
    await office.operations.disable(admin("acme"), "main", "")
    await endpoints.refresh()
    with pytest.raises(ResourceNotFound):
        await endpoints.of_forge("github", "main")


async def test_without_a_name_the_only_endpoint_of_a_forge_is_meant(office: Office) -> None:
    await office.put()
    await office.put(declared(name="gitea", **GITEA))
    endpoints = office.endpoints()
    assert (await endpoints.of_forge("gitea", None)).name == "gitea"
    with pytest.raises(ResourceNotFound):
        await endpoints.of_forge("github", "gitea")
    await office.put(declared(name="second", **GITEA))
    await endpoints.refresh()
    with pytest.raises(ResourceNotFound, match="'gitea'"):
        await endpoints.of_forge("gitea", None)


async def test_the_limit_of_an_endpoint_is_never_above_the_services(office: Office) -> None:
    await office.put(declared(body_limit_bytes=1000))
    await office.put(declared(name="free"))
    own = Endpoints(office.database, office.keyring, limit_bytes=500)
    assert (await own.of_tenant("acme", "main")).body_limit_bytes == 500
    endpoints = office.endpoints()
    assert (await endpoints.of_tenant("acme", "main")).body_limit_bytes == 1000
    assert (await endpoints.of_tenant("acme", "free")).body_limit_bytes == LIMIT_BYTES
