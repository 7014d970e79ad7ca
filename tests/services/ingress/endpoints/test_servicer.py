"""EndpointService of a real process, and what the webhook door makes of what it is told."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.errors import BodyTooLarge, FieldInvalid, ResourceNotFound, ScopeMissing
from fencepost.ingress.v1 import endpoints_pb2 as pb
from fencepost.ingress.v1 import endpoints_pb2_grpc, ingress_pb2, ingress_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from shared.sealing import new_key_line
from tests.database_server import DatabaseServer, as_service
from tests.services.ingress.pulls import pull
from tests.services.ingress.served import Served, served
from tests.services.ingress.test_servicer import add_key
from tests.services.ingress.webhooks.posting import Door, as_sent, opened, signed
from tests.signing import github_signature
from tests.waiting import until_sync

SECRET, NEXT = "the first secret of the wire", "the second secret of the wire"
HOLDS_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def door(database_server: DatabaseServer) -> Iterator[Door]:
    with opened(database_server) as door:
        yield door


@pytest.fixture(scope="module")
def beside(door: Door) -> Iterator[Served]:
    """A second replica on the same database."""
    with served(as_service(door.owner_url, "ingress")) as beside:
        yield beside


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """A tenant of the test's own."""
    return re.sub(r"\W+", "-", request.node.name)[:60].strip("-")


@pytest.fixture
async def stub(door: Door, tenant: str) -> AsyncIterator[Any]:
    settings = ChannelSettings(
        target=door.ingress.grpc, api_key=add_key(door.owner, tenant, ["endpoints_admin"])
    )
    async with connect(settings) as channel:
        yield endpoints_pb2_grpc.EndpointServiceStub(channel)


def endpoint(name: str = "main", **changes: Any) -> pb.Endpoint:
    return pb.Endpoint(
        **{
            "name": name,
            "forge": pb.FORGE_KIND_GITHUB,
            "forge_instance": "github.com",
            "proof": pb.PROOF_SIGNATURE,
            "routes": [pb.Route(action="review", queue="reviews")],
            "drafts": pb.DRAFT_POLICY_IGNORE,
            **changes,
        }
    )


def posted(door: Door, path: str, secret: str, delivery_id: str, *, at: str | None = None) -> int:
    """The status of a webhook that is signed with the secret."""
    body = pull()
    headers = {
        "x-github-event": "pull_request",
        "x-github-delivery": delivery_id,
        "x-hub-signature-256": github_signature(secret.encode(), body),
        "content-type": "application/json",
    }
    url = f"http://{at or door.ingress.webhooks}{path}"
    return door.client.post(url, content=body, headers=as_sent(headers)).status_code


@pytest.mark.guarantee("I5", "K2")
async def test_from_declared_to_disabled(door: Door, stub: Any, tenant: str) -> None:
    ids: dict[str, Any] = {"bot_ids": [7], "trusted_ids": [9]}
    declared = endpoint(**ids, wanted_events=["pull_request"], body_limit_bytes=60_000)
    request = pb.PutEndpointRequest(endpoint=declared, secret=SECRET)
    made = await stub.PutEndpoint(request)
    path = made.endpoint.webhook_path
    assert (made.created, made.endpoint.tenant) == (True, tenant)
    assert made.endpoint.trusted_ids == [9]
    assert path == "/webhooks/github/main"
    assert posted(door, path, SECRET, "d-1") == 202
    assert posted(door, path, NEXT, "d-2") == 401

    rotate = pb.RotateEndpointSecretRequest(name="main", secret=NEXT, overlap=Duration(seconds=60))
    rotated = await stub.RotateEndpointSecret(rotate)
    assert rotated.rotated
    assert [secret.version for secret in rotated.endpoint.secrets] == [2, 1]
    assert not rotated.endpoint.secrets[0].HasField("live_until")
    assert not (await stub.RotateEndpointSecret(rotate)).rotated
    assert [posted(door, path, each, "d-1") for each in (SECRET, NEXT)] == [200, 200]

    [listed] = (await stub.ListEndpoints(pb.ListEndpointsRequest())).endpoints
    assert listed == rotated.endpoint
    answers = f"{made}{rotated}{listed}{json.dumps(door.ingress.logs)}"
    assert not [each for each in (SECRET, NEXT) if each in answers]

    disabled = await stub.DisableEndpoint(pb.DisableEndpointRequest(name="main"))
    assert disabled.endpoint.HasField("disabled_at")
    assert posted(door, path, NEXT, "d-3") == 404


@pytest.mark.guarantee("I5")
async def test_what_one_replica_was_told_holds_on_another_within_five_seconds(
    door: Door, stub: Any, beside: Served
) -> None:
    request = pb.PutEndpointRequest(endpoint=endpoint("shared"), secret=SECRET)
    path = (await stub.PutEndpoint(request)).endpoint.webhook_path

    def status(secret: str) -> int:
        return posted(door, path, secret, "s-1", at=beside.webhooks)

    def seen(wanted: int, secret: str) -> None:
        until_sync(
            lambda: status(secret) == wanted, deadline_s=HOLDS_WITHIN_S, what="the change to hold"
        )

    until_sync(lambda: status(SECRET) in (200, 202), deadline_s=HOLDS_WITHIN_S, what="it to serve")
    await stub.RotateEndpointSecret(pb.RotateEndpointSecretRequest(name="shared", secret=NEXT))
    seen(200, NEXT)
    seen(401, SECRET)
    await stub.DisableEndpoint(pb.DisableEndpointRequest(name="shared"))
    seen(404, NEXT)


@pytest.mark.guarantee("I10")
async def test_an_endpoint_may_have_a_smaller_limit_at_both_doors(
    door: Door, stub: Any, tenant: str
) -> None:
    small = endpoint("small", body_limit_bytes=1024)
    made = await stub.PutEndpoint(pb.PutEndpointRequest(endpoint=small, secret=SECRET))
    assert posted(door, made.endpoint.webhook_path, SECRET, "l-1") == 413
    settings = ChannelSettings(
        target=door.ingress.grpc, api_key=add_key(door.owner, tenant, ["deliveries_write"])
    )
    submission = ingress_pb2.SubmitDeliveryRequest(
        endpoint="small", delivery_id="l-2", event="pull_request", body=pull()
    )
    async with connect(settings) as channel:
        deliveries: Any = ingress_pb2_grpc.IngressServiceStub(channel)
        with pytest.raises(BodyTooLarge) as refused:
            await deliveries.SubmitDelivery(submission)
    assert refused.value.limit_bytes == 1024


@pytest.mark.guarantee("K1")
def test_where_the_sealing_key_is_missing_nobody_is_told_off(door: Door) -> None:
    url = as_service(door.owner_url, "ingress")
    with served(url, {"INGRESS_SEALING_KEYS": new_key_line("another")}) as keyless:
        body = pull()
        answer = door.client.post(
            f"http://{keyless.webhooks}/webhooks/github/github", content=body, headers=signed(body)
        )
        assert (answer.status_code, answer.json()["reason"]) == (503, "SEALING_KEY_UNKNOWN")
        assert "retry-after" in answer.headers
        until_sync(lambda: keyless.logged("a secret does not open"), what="it to be logged")


@pytest.mark.guarantee("X8")
async def test_another_tenants_name_gets_an_address_of_its_own(door: Door, stub: Any) -> None:
    own = endpoint("github")
    made = await stub.PutEndpoint(pb.PutEndpointRequest(endpoint=own, secret=SECRET))
    path = made.endpoint.webhook_path
    assert path == f"/webhooks/github/{made.endpoint.tenant}/github"
    assert posted(door, path, SECRET, "t-1") == 202
    assert posted(door, "/webhooks/github/github", SECRET, "t-2") == 401


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("request_of", "field"),
    [
        ({"endpoint": endpoint(name="Not A Name"), "secret": SECRET}, "endpoint.name"),
        ({"endpoint": endpoint(forge=pb.FORGE_KIND_UNSPECIFIED)}, "endpoint.forge"),
        ({"endpoint": endpoint(routes=[])}, "endpoint.routes"),
        ({"endpoint": endpoint(bot_ids=[0])}, "endpoint.bot_ids[0]"),
        ({"endpoint": endpoint(trusted_ids=[-1])}, "endpoint.trusted_ids[0]"),
        ({"endpoint": endpoint(), "secret": "short"}, "secret"),
        ({"endpoint": endpoint()}, "secret"),
        ({"secret": SECRET}, "endpoint"),
        ({"endpoint": endpoint(proof=pb.PROOF_TOKEN), "secret": SECRET}, "endpoint.proof"),
    ],
)
async def test_an_invalid_field_is_named(stub: Any, request_of: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldInvalid) as refused:
        await stub.PutEndpoint(pb.PutEndpointRequest(**request_of))
    assert field in [named for named, _ in refused.value.violations]
    assert SECRET not in str(refused.value)


async def test_who_lacks_the_scope_or_names_no_tenant_is_refused(door: Door, tenant: str) -> None:
    for owner, scopes, error in (
        (tenant, ["operate", "deliveries_write"], ScopeMissing),
        (None, ["endpoints_admin", "operate"], FieldInvalid),
    ):
        key = add_key(door.owner, owner, scopes)  # type: ignore[arg-type]  # an operator's has none
        async with connect(ChannelSettings(target=door.ingress.grpc, api_key=key)) as channel:
            stub: Any = endpoints_pb2_grpc.EndpointServiceStub(channel)
            with pytest.raises(error):
                await stub.PutEndpoint(pb.PutEndpointRequest(endpoint=endpoint(), secret=SECRET))


async def test_what_is_not_there_is_not_found(stub: Any) -> None:
    for call in (
        stub.DisableEndpoint(pb.DisableEndpointRequest(name="none")),
        stub.RotateEndpointSecret(pb.RotateEndpointSecretRequest(name="none", secret=SECRET)),
    ):
        with pytest.raises(ResourceNotFound):
            await call
