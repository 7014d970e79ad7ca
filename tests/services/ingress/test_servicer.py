"""The gRPC door of a real process: what each call is answered, and what it leaves behind."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.errors import FencepostError, FieldInvalid
from fencepost.ingress.v1 import ingress_pb2, ingress_pb2_grpc
from fencepost.status import from_rpc_error, from_status
from grpc import StatusCode, aio

from shared.credentials import new_credential
from tests.database_server import DatabaseServer
from tests.services.ingress.pulls import REPO_ID, TENANT, A, pull, real
from tests.services.ingress.webhooks.posting import LIMIT_BYTES, Door, opened, signed

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"
SCOPES = ["deliveries_write", "deliveries_read"]


@dataclass(frozen=True)
class Callers:
    """A running ingress with a key for each kind of caller."""

    door: Door
    ours: str
    theirs: str
    reader: str


def add_key(owner: "psycopg.Connection[Any]", tenant: str, scopes: list[str]) -> str:
    credential = new_credential()
    owner.execute(
        "INSERT INTO fencepost.api_keys (key_id, tenant, label, scopes, secret_sha256, created_by)"
        " VALUES (%s, %s, 'test', %s, %s, 'test')",
        [credential.key_id, tenant, scopes, credential.secret_sha256],
    )
    return credential.text


@pytest.fixture(scope="module")
def callers(database_server: DatabaseServer) -> Iterator[Callers]:
    with opened(database_server) as door:
        yield Callers(
            door,
            ours=add_key(door.owner, TENANT, SCOPES),
            theirs=add_key(door.owner, "other", SCOPES),
            reader=add_key(door.owner, TENANT, ["deliveries_read"]),
        )


@pytest.fixture
async def stub(callers: Callers) -> AsyncIterator[ingress_pb2_grpc.IngressServiceStub]:
    settings = ChannelSettings(target=callers.door.ingress.grpc, api_key=callers.ours)
    async with connect(settings) as channel:
        yield ingress_pb2_grpc.IngressServiceStub(channel)


def request(**changes: Any) -> ingress_pb2.SubmitDeliveryRequest:
    return ingress_pb2.SubmitDeliveryRequest(
        **{
            "endpoint": "github",
            "delivery_id": "bad",
            "event": "pull_request",
            "body": pull(),
            **changes,
        }
    )


async def refusal(callers: Callers, key: str | None, method: str, message: Any) -> FencepostError:
    """What the server itself says: this channel checks nothing before it sends."""
    async with aio.insecure_channel(callers.door.ingress.grpc) as channel:
        stub = ingress_pb2_grpc.IngressServiceStub(channel)
        metadata = [("authorization", f"Bearer {key}")] if key else []
        with pytest.raises(aio.AioRpcError) as caught:
            await getattr(stub, method)(message, timeout=10, metadata=metadata)
    return from_rpc_error(caught.value)


@pytest.mark.guarantee("I1", "I4", "I13")
async def test_each_outcome_over_grpc(stub: Any) -> None:
    body = real("opened")
    accepted = await stub.SubmitDelivery(request(delivery_id="g-1", body=body))
    assert accepted == ingress_pb2.SubmitDeliveryResponse(
        outcome=ingress_pb2.DELIVERY_OUTCOME_ACCEPTED,
        first_delivery_id="g-1",
        intent_ids=accepted.intent_ids,
    )
    assert len(accepted.intent_ids) == 1
    again = await stub.SubmitDelivery(request(delivery_id="g-1", body=body))
    assert again == ingress_pb2.SubmitDeliveryResponse(
        outcome=ingress_pb2.DELIVERY_OUTCOME_DUPLICATE,
        matched=ingress_pb2.DUPLICATE_MATCH_DELIVERY_ID,
        first_delivery_id="g-1",
        intent_ids=accepted.intent_ids,
    )
    same_key = await stub.SubmitDelivery(request(delivery_id="g-2", body=body))
    assert (same_key.matched, same_key.first_delivery_id) == (
        ingress_pb2.DUPLICATE_MATCH_KEY,
        "g-1",
    )
    ping = await stub.SubmitDelivery(request(delivery_id="g-3", event="ping", body=b"{}"))
    assert (ping.outcome, ping.reason) == (ingress_pb2.DELIVERY_OUTCOME_IGNORED, "ping")


@pytest.mark.guarantee("I1")
async def test_both_doors_know_the_same_deliveries(stub: Any, callers: Callers) -> None:
    body = pull(number=300)
    posted = callers.door.post(body, signed(body, x_github_delivery="both"))
    assert posted.status_code == 202
    answer = await stub.SubmitDelivery(request(delivery_id="both", body=body))
    assert answer.matched == ingress_pb2.DUPLICATE_MATCH_DELIVERY_ID
    assert list(answer.intent_ids) == posted.json()["intents"]


async def test_a_delivery_is_read_as_it_was_stored(stub: Any) -> None:
    body = pull(number=301)
    taken = await stub.SubmitDelivery(
        request(delivery_id="read", body=body), metadata=[("traceparent", TRACEPARENT)]
    )
    found = await stub.GetDelivery(
        ingress_pb2.GetDeliveryRequest(endpoint="github", delivery_id="read")
    )
    delivery = found.delivery
    assert (delivery.endpoint, delivery.delivery_id) == ("github", "read")
    assert (delivery.event, delivery.event_action) == ("pull_request", "opened")
    assert delivery.outcome == ingress_pb2.DELIVERY_OUTCOME_ACCEPTED
    assert delivery.intent_ids == taken.intent_ids
    assert (delivery.key.forge_instance, delivery.key.repo_id) == ("github.com", REPO_ID)
    assert (delivery.key.number, delivery.key.head_sha) == (301, "a" * 40)
    assert delivery.key.label == f"Codertocat/Hello-World#301@{'a' * 40}"
    assert delivery.body_bytes == len(body)
    assert len(delivery.body_sha256) == 64
    assert delivery.traceparent.split("-")[1] == TRACE_ID
    assert delivery.received_at.seconds > 0


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"body": b"not json"}, "body"),
        ({"body": b""}, "body"),
        ({"body": b"{}"}, "action"),
        ({"body": pull(head_sha="abc")}, "pull_request.head.sha"),
        ({"delivery_id": ""}, "delivery_id"),
        ({"delivery_id": " "}, "delivery_id"),
        ({"delivery_id": "d" * 201}, "delivery_id"),
        ({"delivery_id": "a\0b"}, "delivery_id"),
        ({"event": ""}, "event"),
        ({"event": "a\0b"}, "event"),
        ({"content_type": "application/json\0"}, "content_type"),
        ({"content_type": "text/plain"}, "content_type"),
        ({"endpoint": "Not A Name"}, "endpoint"),
    ],
)
async def test_an_invalid_field_is_named(
    callers: Callers, changes: dict[str, Any], field: str
) -> None:
    written = callers.door.written()
    refused = await refusal(callers, callers.ours, "SubmitDelivery", request(**changes))
    assert isinstance(refused, FieldInvalid)
    assert {name for name, _ in refused.violations} == {field}
    assert callers.door.written() == written


@pytest.mark.guarantee("X4", "X8")
@pytest.mark.parametrize(
    ("key", "changes", "code", "reason"),
    [
        ("ours", {"endpoint": "other"}, StatusCode.NOT_FOUND, "RESOURCE_NOT_FOUND"),
        ("theirs", {}, StatusCode.NOT_FOUND, "RESOURCE_NOT_FOUND"),
        ("reader", {}, StatusCode.PERMISSION_DENIED, "SCOPE_MISSING"),
        (None, {}, StatusCode.UNAUTHENTICATED, "KEY_UNKNOWN"),
        (
            "ours",
            {"body": pull().ljust(LIMIT_BYTES + 1)},
            StatusCode.RESOURCE_EXHAUSTED,
            "BODY_TOO_LARGE",
        ),
    ],
)
async def test_who_may_not_submit_leaves_nothing_behind(
    callers: Callers, key: str | None, changes: dict[str, Any], code: StatusCode, reason: str
) -> None:
    written = callers.door.written()
    credential = getattr(callers, key) if key else None
    refused = await refusal(callers, credential, "SubmitDelivery", request(**changes))
    assert (refused.code, refused.reason) == (code, reason)
    assert callers.door.written() == written


@pytest.mark.guarantee("I4")
async def test_another_body_under_the_same_id_is_refused(stub: Any, callers: Callers) -> None:
    await stub.SubmitDelivery(request(delivery_id="conflict", body=pull(number=302)))
    written = callers.door.written()
    other = request(delivery_id="conflict", body=pull(number=302, title="Other"))
    refused = await refusal(callers, callers.ours, "SubmitDelivery", other)
    assert (refused.code, refused.reason) == (StatusCode.ALREADY_EXISTS, "DELIVERY_CONFLICT")
    assert callers.door.written() == written


@pytest.mark.guarantee("X8")
@pytest.mark.parametrize(
    ("key", "delivery_id"), [("ours", "never"), ("theirs", "mine"), ("ours", "mi\0ne")]
)
async def test_what_is_not_the_callers_is_not_found(
    stub: Any, callers: Callers, key: str, delivery_id: str
) -> None:
    await stub.SubmitDelivery(request(delivery_id="mine", body=pull(number=303)))
    refused = await refusal(
        callers,
        getattr(callers, key),
        "GetDelivery",
        ingress_pb2.GetDeliveryRequest(endpoint="github", delivery_id=delivery_id),
    )
    assert (refused.code, refused.reason) == (StatusCode.NOT_FOUND, "RESOURCE_NOT_FOUND")


def stored_traceparents(door: Door, delivery_id: str) -> list[str]:
    return [
        traceparent
        for row in door.owner.execute(
            "SELECT d.traceparent, i.traceparent FROM fencepost.deliveries d"
            " JOIN fencepost.intents i USING (delivery_seq) WHERE d.delivery_id = %s",
            [delivery_id],
        )
        for traceparent in row
    ]


@pytest.mark.parametrize(
    ("number", "sent", "continued"),
    [
        (401, TRACEPARENT, True),
        (402, None, False),
        (403, "00-zz-zz-01", False),
        (404, "", False),
    ],
)
def test_a_webhook_continues_its_senders_trace_or_begins_one(
    callers: Callers, number: int, sent: str | None, continued: bool
) -> None:
    body = pull(number=number)
    delivery_id = f"trace-{number}"
    response = callers.door.post(
        body, signed(body, x_github_delivery=delivery_id, traceparent=sent)
    )
    assert response.status_code == 202
    of_delivery, of_intent = stored_traceparents(callers.door, delivery_id)
    assert of_delivery == of_intent
    _, trace_id, span_id, _ = of_intent.split("-")
    assert (trace_id == TRACE_ID) is continued
    assert span_id != TRACEPARENT.split("-")[2]
    assert int(trace_id, 16) != 0


def submit_list(*requests: ingress_pb2.SubmitDeliveryRequest) -> Any:
    return ingress_pb2.SubmitDeliveriesRequest(deliveries=requests)


@pytest.mark.guarantee("X4", "I1", "I4")
async def test_each_delivery_of_a_list_has_its_own_answer(stub: Any) -> None:
    answered = await stub.SubmitDeliveries(
        submit_list(
            request(delivery_id="l-1", body=pull(number=70)),
            request(delivery_id="", body=pull(number=71)),
            request(delivery_id="l-2", endpoint="nobodys"),
            request(delivery_id="l-1", body=pull(number=70)),
            request(delivery_id="l-1", body=pull(number=72)),
            request(delivery_id="l-3", body=b"{"),
            request(delivery_id="l-4", body=b"x" * (LIMIT_BYTES + 1)),
            request(delivery_id="l-5", body=pull(number=73)),
        )
    )
    said = [
        ingress_pb2.DeliveryOutcome.Name(each.taken.outcome)
        if each.HasField("taken")
        else from_status(each.refusal).reason
        for each in answered.results
    ]
    assert said == [
        "DELIVERY_OUTCOME_ACCEPTED",
        "FIELD_INVALID",
        "RESOURCE_NOT_FOUND",
        "DELIVERY_OUTCOME_DUPLICATE",
        "DELIVERY_CONFLICT",
        "FIELD_INVALID",
        "BODY_TOO_LARGE",
        "DELIVERY_OUTCOME_ACCEPTED",
    ]
    first, again = answered.results[0].taken, answered.results[3].taken
    assert (again.first_delivery_id, again.intent_ids) == ("l-1", first.intent_ids)
    invalid = from_status(answered.results[1].refusal)
    assert isinstance(invalid, FieldInvalid)
    assert {name for name, _ in invalid.violations} == {"delivery_id"}


@pytest.mark.guarantee("X4")
async def test_a_list_has_its_bounds(callers: Callers) -> None:
    for requests in ([], [request()] * 1001):
        refused = await refusal(callers, callers.ours, "SubmitDeliveries", submit_list(*requests))
        assert isinstance(refused, FieldInvalid)
        assert [name for name, _ in refused.violations] == ["deliveries"]


@pytest.mark.guarantee("X8")
async def test_nobody_submits_a_list_to_anothers_endpoint(callers: Callers) -> None:
    settings = ChannelSettings(target=callers.door.ingress.grpc, api_key=callers.theirs)
    async with connect(settings) as channel:
        stub: Any = ingress_pb2_grpc.IngressServiceStub(channel)
        answered = await stub.SubmitDeliveries(submit_list(request(delivery_id="x-1")))
    [result] = answered.results
    assert from_status(result.refusal).reason == "RESOURCE_NOT_FOUND"
    refused = await refusal(callers, callers.reader, "SubmitDeliveries", submit_list(request()))
    assert refused.reason == "SCOPE_MISSING"


async def listed(stub: Any, **filters: Any) -> list[str]:
    """Ids of all pages, two deliveries each."""
    found: list[str] = []
    token = ""
    while True:
        page = await stub.ListDeliveries(
            ingress_pb2.ListDeliveriesRequest(page_size=2, page_token=token, **filters)
        )
        assert 0 < len(page.deliveries) <= 2 or not found
        found += [delivery.delivery_id for delivery in page.deliveries]
        token = page.next_page_token
        if not token:
            return found


async def test_deliveries_are_listed_newest_first_by_what_is_asked(stub: Any) -> None:
    place = ingress_pb2.ChangeRequestFilter(forge_instance="github.com", repo_id=REPO_ID, number=80)
    sent = [
        request(delivery_id=f"p-{n}", event=event, body=body)
        for n, (event, body) in enumerate(
            [
                ("pull_request", pull(number=80)),
                ("pull_request", pull(number=80, draft=True, at=1)),
                ("ping", b"{}"),
                ("pull_request", pull(number=81)),
                ("pull_request", pull("closed", number=80, at=2)),
            ]
        )
    ]
    for each in sent:
        await stub.SubmitDelivery(each)
    of_pull: dict[str, Any] = {"change_request": place}
    assert await listed(stub, **of_pull) == ["p-4", "p-1", "p-0"]
    ignored = ingress_pb2.DELIVERY_OUTCOME_IGNORED
    assert await listed(stub, outcome=ignored, **of_pull) == ["p-4", "p-1"]
    assert (await listed(stub, endpoint="github"))[:5] == ["p-4", "p-3", "p-2", "p-1", "p-0"]
    assert await listed(stub, endpoint="nobodys") == []
    assert (await listed(stub, event="ping"))[0] == "p-2"
    found = (await stub.ListDeliveries(ingress_pb2.ListDeliveriesRequest(**of_pull))).deliveries
    assert (
        found[-1]
        == (
            await stub.GetDelivery(
                ingress_pb2.GetDeliveryRequest(endpoint="github", delivery_id="p-0")
            )
        ).delivery
    )
    newest, middle, oldest = (delivery.received_at for delivery in found)
    assert await listed(stub, received_from=middle, received_before=newest, **of_pull) == ["p-1"]
    assert await listed(stub, received_before=oldest, **of_pull) == []
    key = f"github.com/{REPO_ID}#80@{A}"
    assert await listed(stub, key=key) == ["p-4", "p-1", "p-0"]


@pytest.mark.guarantee("X8")
async def test_a_listing_is_of_the_callers_tenant(callers: Callers, stub: Any) -> None:
    await stub.SubmitDelivery(request(delivery_id="ours", body=pull(number=90)))
    settings = ChannelSettings(target=callers.door.ingress.grpc, api_key=callers.theirs)
    async with connect(settings) as channel:
        assert await listed(ingress_pb2_grpc.IngressServiceStub(channel)) == []
    assert "ours" in await listed(stub)


@pytest.mark.parametrize(
    "token", ["x", "\u00e9", "MQ==", "MSAtMQ==", "OTk5OTk5OTk5OTk5OTk5OTk5OTkgMQ=="]
)
async def test_a_page_token_that_was_never_given_out_is_refused(
    callers: Callers, token: str
) -> None:
    asked = ingress_pb2.ListDeliveriesRequest(page_token=token)
    refused = await refusal(callers, callers.ours, "ListDeliveries", asked)
    assert isinstance(refused, FieldInvalid)
    assert [name for name, _ in refused.violations] == ["page_token"]
