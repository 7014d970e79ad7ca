"""Every RPC of every contract, asked by one tenant for what is another's (X8), or without its
scope (X2).

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

ANY = "any"
SCOPES = {
    "fencepost.common.v1.ServerInfoService.GetServerInfo": "any",
    "fencepost.dispatcher.v1.CheckpointService.Flush": "work",
    "fencepost.dispatcher.v1.CheckpointService.GetRun": "work",
    "fencepost.dispatcher.v1.IntentService.EnqueueIntents": "intents_write",
    "fencepost.dispatcher.v1.IntentService.GetIntent": "intents_read",
    "fencepost.dispatcher.v1.QueueService.GetQueue": "operate",
    "fencepost.dispatcher.v1.QueueService.ListQueues": "operate",
    "fencepost.dispatcher.v1.QueueService.PauseQueue": "operate",
    "fencepost.dispatcher.v1.QueueService.PutQueue": "operate",
    "fencepost.dispatcher.v1.QueueService.ResumeQueue": "operate",
    "fencepost.dispatcher.v1.DispatchService.Work": "work",
    "fencepost.dispatcher.v1.DispatchService.FetchPayload": "work",
    "fencepost.dispatcher.v1.DispatchService.Wake": "wake",
    "fencepost.ingress.v1.EndpointService.PutEndpoint": "endpoints_admin",
    "fencepost.ingress.v1.EndpointService.ListEndpoints": "endpoints_admin",
    "fencepost.ingress.v1.EndpointService.DisableEndpoint": "endpoints_admin",
    "fencepost.ingress.v1.EndpointService.RotateEndpointSecret": "endpoints_admin",
    "fencepost.ingress.v1.IngressService.SubmitDelivery": "deliveries_write",
    "fencepost.ingress.v1.IngressService.SubmitDeliveries": "deliveries_write",
    "fencepost.ingress.v1.IngressService.GetDelivery": "deliveries_read",
    "fencepost.ingress.v1.IngressService.ListDeliveries": "deliveries_read",
    "fencepost.publisher.v1.ConnectionService.PutConnection": "connections_admin",
    "fencepost.publisher.v1.ConnectionService.ListConnections": "connections_admin",
    "fencepost.publisher.v1.ConnectionService.DisableConnection": "connections_admin",
    "fencepost.publisher.v1.ConnectionService.RotateSealingKey": "connections_admin",
    "fencepost.publisher.v1.LedgerService.GetPublication": "status_read",
    "fencepost.publisher.v1.LedgerService.HoldPublications": "operate",
    "fencepost.publisher.v1.LedgerService.ReleaseHold": "operate",
    "fencepost.publisher.v1.PublishService.PublishReview": "publish",
    "fencepost.publisher.v1.PublishService.ResolveHead": "heads_read",
    "fencepost.watchdog.v1.AccessService.CreateKey": "keys_admin",
    "fencepost.watchdog.v1.AccessService.RotateKey": "keys_admin",
    "fencepost.watchdog.v1.AccessService.RevokeKey": "keys_admin",
    "fencepost.watchdog.v1.AccessService.ListKeys": "keys_admin",
    "fencepost.watchdog.v1.WatchdogService.GetStatus": "status_read",
    "fencepost.watchdog.v1.WatchdogService.GetTimeline": "status_read",
}
"""By RPC: the one scope that a key must have."""

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


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize("name", [name for name, scope in SCOPES.items() if scope != ANY])
async def test_every_other_scope_together_is_not_enough(
    stage: Stage, ours: Ours, name: str
) -> None:
    scope, method = SCOPES[name], rpcs()[name]
    key = await ours.rows.api_key(*(set(ALL_SCOPES) - {scope}), tenant=ours.rows.tenant)
    before = await their_rows(ours.rows)
    for address in stage.suite.serving(method):
        with pytest.raises(ScopeMissing) as refused:
            await PROBES[name][0].ask(replace(ours, key=key), stage.theirs, method, address)
        assert refused.value.scope == scope
        assert refused.value.code is grpc.StatusCode.PERMISSION_DENIED
    assert await their_rows(ours.rows) == before


def test_every_rpc_has_its_scope_declared_here() -> None:
    assert SCOPES.keys() == rpcs().keys()


async def test_the_other_tenant_has_a_row_in_every_table(ours: Ours) -> None:
    assert set(TENANT_TABLES) - set(await their_rows(ours.rows)) == set()


def test_every_row_is_of_an_rpc_that_there_is() -> None:
    assert set(PROBES) - set(rpcs()) == set()
