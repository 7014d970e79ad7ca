"""Keys over the wire: a process of its own makes, succeeds, ends and lists them."""

from time import monotonic
from typing import Any

import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.common.v1 import access_pb2
from fencepost.errors import (
    KeyRevoked,
    RequestIdReused,
    ResourceNotFound,
    ScopeMissing,
)
from fencepost.ingress.v1 import ingress_pb2
from fencepost.ingress.v1.ingress_pb2_grpc import IngressServiceStub
from fencepost.watchdog.v1 import access_pb2 as keys
from fencepost.watchdog.v1 import watchdog_pb2 as watch
from google.protobuf.duration_pb2 import Duration

from shared.credentials import parse, secret_digest
from tests.database_server import as_service
from tests.services.ingress.served import served as served_ingress
from tests.services.watchdog.made import key_request
from tests.services.watchdog.stage import Client, Place, Stage
from tests.waiting import until

REVOKED_WITHIN_S = 5.0
DAY_S = 24 * 60 * 60


@pytest.mark.guarantee("X2")
async def test_a_made_key_works_at_once_and_only_as_far_as_its_scopes_go(
    stage: Stage, tenant: str
) -> None:
    async with stage.client(tenant) as admin:
        made = await admin.access.CreateKey(key_request(valid_for=Duration(seconds=DAY_S)))
    parsed = parse(made.credential)
    assert parsed is not None
    key_id, secret = parsed
    assert key_id == made.key.key_id
    assert made.key.tenant == tenant
    assert list(made.key.scopes) == [access_pb2.SCOPE_WORK, access_pb2.SCOPE_STATUS_READ]
    assert made.key.ends_at.seconds - made.key.created_at.seconds in (DAY_S, DAY_S + 1)
    assert not made.key.rotated_from
    stored = await stage.rows.one("api_keys", key_id=key_id)
    assert stored["secret_sha256"] == secret_digest(secret)
    async with stage.client(credential=made.credential) as holder:
        await holder.watchdog.GetStatus(watch.GetStatusRequest())
        with pytest.raises(ScopeMissing):
            await holder.access.ListKeys(keys.ListKeysRequest())


@pytest.mark.guarantee("X2")
async def test_nobody_gives_away_a_scope_of_which_the_own_key_has_none(
    stage: Stage, tenant: str
) -> None:
    async with stage.client(tenant, scopes=["keys_admin"]) as admin:
        with pytest.raises(ScopeMissing, match="can give it to no other key"):
            await admin.access.CreateKey(key_request())
    assert len(await stage.rows.all("api_keys", tenant=tenant)) == 1


async def test_a_repeated_request_is_refused_with_the_way_out(stage: Stage, tenant: str) -> None:
    async with stage.client(tenant) as admin:
        made = await admin.access.CreateKey(key_request())
        with pytest.raises(RequestIdReused, match=f"revoke key {made.key.key_id} and create"):
            await admin.access.CreateKey(key_request())


@pytest.mark.guarantee("X2")
async def test_a_rotated_key_serves_for_the_overlap_and_its_successor_at_once(
    stage: Stage, tenant: str
) -> None:
    async with stage.client(tenant) as admin:
        first = await admin.access.CreateKey(key_request())
        second = await admin.access.RotateKey(
            keys.RotateKeyRequest(
                request_id="r", key_id=first.key.key_id, overlap=Duration(seconds=60)
            )
        )
        assert second.key.rotated_from == first.key.key_id
        assert list(second.key.scopes) == list(first.key.scopes)
        for credential in (first.credential, second.credential):
            async with stage.client(credential=credential) as holder:
                await holder.watchdog.GetStatus(watch.GetStatusRequest())
        third = await admin.access.RotateKey(
            keys.RotateKeyRequest(request_id="s", key_id=second.key.key_id)
        )
    async with stage.client(credential=second.credential) as holder:
        await until(lambda: _refused(holder), deadline_s=REVOKED_WITHIN_S, what="the key's end")
    async with stage.client(credential=third.credential) as holder:
        await holder.watchdog.GetStatus(watch.GetStatusRequest())


async def _refused(client: Client) -> bool:
    try:
        await client.watchdog.GetStatus(watch.GetStatusRequest())
    except KeyRevoked:
        return True
    return False


@pytest.mark.guarantee("X2")
async def test_a_revoked_key_is_refused_by_every_service_within_five_seconds(
    place: Place, stage: Stage, tenant: str
) -> None:
    asked = ingress_pb2.GetDeliveryRequest(endpoint="github", delivery_id="d-1")
    ingress_url = as_service(place.owner_url, "ingress")
    async with stage.client(tenant, scopes=["deliveries_read", "status_read"]) as victim:
        with served_ingress(ingress_url) as ingress:
            settings = ChannelSettings(target=ingress.grpc, api_key=victim.credential)
            async with connect(settings) as channel, stage.client(tenant) as admin:
                deliveries: Any = IngressServiceStub(channel)
                with pytest.raises(ResourceNotFound):
                    await deliveries.GetDelivery(asked)
                assert not await _refused(victim)
                revoked = await admin.access.RevokeKey(keys.RevokeKeyRequest(key_id=victim.key_id))
                since_s = monotonic()
                assert revoked.key.HasField("ends_at")

                async def refused_by_ingress() -> bool:
                    with pytest.raises((KeyRevoked, ResourceNotFound)) as refusal:
                        await deliveries.GetDelivery(asked)
                    return refusal.type is KeyRevoked

                await until(refused_by_ingress, what="ingress to refuse the key")
                await until(lambda: _refused(victim), what="the watchdog to refuse the key")
                assert monotonic() - since_s < REVOKED_WITHIN_S
                again = await admin.access.RevokeKey(keys.RevokeKeyRequest(key_id=victim.key_id))
                assert again.key == revoked.key


@pytest.mark.guarantee("W7")
async def test_the_caller_stands_in_the_audit_trail(stage: Stage, tenant: str) -> None:
    async with stage.client(tenant) as admin:
        made = await admin.access.CreateKey(key_request())
    [entry] = await stage.rows.all("audit_entries", tenant=tenant)
    assert (entry["key_id"], entry["action"]) == (admin.key_id, "CreateKey")
    assert entry["subject"] == f"key {made.key.key_id}"


async def test_a_page_is_as_long_as_asked_and_leads_to_the_next(stage: Stage, tenant: str) -> None:
    async with stage.client(tenant) as admin:
        for number in range(3):
            await admin.access.CreateKey(key_request(request_id=f"r-{number}"))
        first = await admin.access.ListKeys(keys.ListKeysRequest(page_size=3))
        rest = await admin.access.ListKeys(
            keys.ListKeysRequest(page_size=3, page_token=first.next_page_token)
        )
    assert [len(first.keys), len(rest.keys), rest.next_page_token] == [3, 1, ""]
    assert len({key.key_id for key in [*first.keys, *rest.keys]}) == 4
