"""Every RPC of every contract, asked by one tenant for what is another's (X8).

`PROBES` has a row for each: how the other's id is presented, and what must come back. Whatever
comes, the other tenant's rows stay as they are.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass, replace

import grpc
import pytest
from fencepost.errors import ResourceNotFound, ScopeMissing
from google.protobuf.message import Message

from tests.database_server import DatabaseServer
from tests.system.probes import common, dispatcher, ingress, publisher, watchdog
from tests.system.probes.asking import Ours, Probe
from tests.system.tenants import (
    ALL_SCOPES,
    SECRET,
    TENANT_TABLES,
    THEIRS,
    Suite,
    Theirs,
    rpcs,
    seed,
    suite_on,
    their_rows,
)

pytestmark = pytest.mark.timeout(180)

PROBES = {
    name: probes
    for service in (common, ingress, dispatcher, publisher, watchdog)
    for name, probes in service.PROBES.items()
}
"""By RPC: every way in which another tenant's id can be presented to it."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Stage:
    """The suite, and what is in it of the other tenant."""

    suite: Suite
    theirs: Theirs


@pytest.fixture(scope="module")
def stage(database_server: DatabaseServer) -> Iterator[Stage]:
    for owner_url in database_server.each_database():
        with suite_on(owner_url) as suite:
            yield Stage(suite, asyncio.run(seed(suite)))


@pytest.fixture
async def ours(stage: Stage) -> AsyncIterator[Ours]:
    """A tenant that no other test has."""
    tenant = f"acme-{next(_numbers)}"
    async with stage.suite.rows(tenant) as rows:
        yield Ours(rows, await rows.api_key(*ALL_SCOPES, tenant=tenant))


async def asked(stage: Stage, ours: Ours, name: str) -> None:
    """Puts every probe of the RPC wherever it is served; their rows must stay as they are."""
    method = rpcs()[name]
    before = await their_rows(ours.rows)
    for address in stage.suite.serving(method):
        for probe in PROBES[name]:
            await judged(probe, probe.ask(ours, stage.theirs, method, address), stage.theirs)
    assert await their_rows(ours.rows) == before


async def judged(probe: Probe, answers: Awaitable[Sequence[Message]], theirs: Theirs) -> None:
    """Holds what comes back against the row."""
    if probe.refused is None:
        found = await answers
        assert probe.shows_nothing(found, theirs), probe.what
        assert SECRET not in str(found), probe.what
        return
    with pytest.raises(probe.refused) as refused:
        await answers
    assert SECRET not in str(refused.value)
    if isinstance(refused.value, ResourceNotFound):
        assert refused.value.code is grpc.StatusCode.NOT_FOUND
        assert refused.value.kind == probe.kind


@pytest.mark.guarantee("X8")
@pytest.mark.parametrize("name", rpcs())
async def test_another_tenants_id_leads_nowhere(stage: Stage, ours: Ours, name: str) -> None:
    assert name in PROBES, "say in PROBES how another tenant's id is presented to it"
    await asked(stage, ours, name)


@pytest.mark.guarantee("X8")
@pytest.mark.parametrize("name", rpcs())
async def test_another_tenants_name_opens_nothing(stage: Stage, ours: Ours, name: str) -> None:
    method = rpcs()[name]
    before = await their_rows(ours.rows)
    posing = replace(ours, named=THEIRS)
    for address in stage.suite.serving(method):
        with pytest.raises(ScopeMissing):
            await PROBES[name][0].ask(posing, stage.theirs, method, address)
    assert await their_rows(ours.rows) == before


async def test_the_other_tenant_has_a_row_in_every_table(ours: Ours) -> None:
    assert set(TENANT_TABLES) - set(await their_rows(ours.rows)) == set()


def test_every_row_is_of_an_rpc_that_there_is() -> None:
    assert set(PROBES) - set(rpcs()) == set()
