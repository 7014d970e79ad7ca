"""The watchdog over the wire, as a process of its own."""

import urllib.request
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import pytest
from fencepost.common.v1 import access_pb2
from fencepost.errors import (
    DatabaseUnavailable,
    FieldInvalid,
    ResourceNotFound,
    ScopeMissing,
)
from fencepost.watchdog.v1 import access_pb2 as keys
from fencepost.watchdog.v1 import watchdog_pb2 as watch
from google.protobuf.duration_pb2 import Duration
from psycopg import AsyncConnection

from tests.database_proxy import DatabaseProxy
from tests.database_server import as_service
from tests.rows import Rows, from_now
from tests.services.watchdog.made import key_request, put_endpoint
from tests.services.watchdog.served import served_beside
from tests.services.watchdog.stage import Client, Stage
from tests.waiting import until

REVOKED_WITHIN_S = 5.0
AWAY_WITHIN_S = 6.0
"""With room for a busy machine: the key's lookup ends after 1.5 s, the call's deadline after 10."""
DAY_S = 24 * 60 * 60


Call = Callable[[Client], Awaitable[Any]]

CALLS: dict[str, tuple[str, Call]] = {
    "CreateKey": ("keys_admin", lambda client: client.access.CreateKey(key_request())),
    "RotateKey": (
        "keys_admin",
        lambda client: client.access.RotateKey(
            keys.RotateKeyRequest(request_id="r", key_id="nothing1")
        ),
    ),
    "RevokeKey": (
        "keys_admin",
        lambda client: client.access.RevokeKey(keys.RevokeKeyRequest(key_id="nothing1")),
    ),
    "ListKeys": ("keys_admin", lambda client: client.access.ListKeys(keys.ListKeysRequest())),
    "GetStatus": (
        "status_read",
        lambda client: client.watchdog.GetStatus(watch.GetStatusRequest()),
    ),
    "GetTimeline": (
        "status_read",
        lambda client: client.watchdog.GetTimeline(watch.GetTimelineRequest(delivery_id="d")),
    ),
}


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize("name", CALLS)
async def test_each_call_asks_for_its_scope_and_writes_nothing_without_it(
    stage: Stage, tenant: str, name: str
) -> None:
    scope, call = CALLS[name]
    others = [each for each in ("work", "operate", "keys_admin", "status_read") if each != scope]
    async with stage.client(tenant, scopes=others) as client:
        with pytest.raises(ScopeMissing) as refused:
            await call(client)
        assert refused.value.scope == scope
        assert len(await stage.rows.all("api_keys", tenant=tenant)) == 1
        assert await stage.rows.all("request_ids", tenant=tenant) == []


@pytest.mark.guarantee("X8")
async def test_an_operator_names_a_tenant_or_sees_all(stage: Stage, tenant: str) -> None:
    other = f"{tenant}-other"
    await stage.rows.delivery(tenant=tenant, delivery_id=f"d-{tenant}")
    async with stage.client(other) as theirs, stage.client(None, named=tenant) as operator:
        made = await operator.access.CreateKey(key_request())
        assert made.key.tenant == tenant
        listed = await operator.access.ListKeys(keys.ListKeysRequest())
        assert [key.key_id for key in listed.keys] == [made.key.key_id]
        with pytest.raises(ResourceNotFound):
            await operator.access.RevokeKey(keys.RevokeKeyRequest(key_id=theirs.key_id))
        asked = watch.GetTimelineRequest(delivery_id=f"d-{tenant}")
        assert len((await operator.watchdog.GetTimeline(asked)).events) == 1
        assert (await theirs.watchdog.GetTimeline(asked)).standing.startswith("Nothing was")
        assert await _figure(operator, "deliveries_received_last_hour") == 1
        assert await _figure(theirs, "deliveries_received_last_hour") == 0
    async with stage.client(None) as operator:
        assert len((await operator.watchdog.GetTimeline(asked)).events) == 1
        assert (await _figure(operator, "deliveries_received_last_hour") or 0) >= 1
        request = key_request(request_id=f"of-no-{tenant}", scopes=[access_pb2.SCOPE_STATUS_READ])
        made = await operator.access.CreateKey(request)
        assert made.key.tenant == ""


async def _figure(client: Client, name: str) -> float | None:
    answer = await client.watchdog.GetStatus(watch.GetStatusRequest())
    [figure] = [each for each in answer.figures if each.name == name]
    return float(figure.value) if figure.WhichOneof("observation") == "value" else None


INVALID: dict[str, tuple[Call, str]] = {
    "request_id": (lambda c: c.access.CreateKey(key_request(request_id="")), "request_id"),
    "label": (lambda c: c.access.CreateKey(key_request(label="x" * 201)), "label"),
    "no scope": (lambda c: c.access.CreateKey(key_request(scopes=[])), "scopes"),
    "any scope": (lambda c: c.access.CreateKey(key_request(scopes=[11])), "scopes[0]"),
    "life": (
        lambda c: c.access.CreateKey(key_request(valid_for=Duration(nanos=1))),
        "valid_for",
    ),
    "overlap": (
        lambda c: c.access.RotateKey(
            keys.RotateKeyRequest(
                request_id="r", key_id="nothing1", overlap=Duration(seconds=31 * DAY_S)
            )
        ),
        "overlap",
    ),
    "key": (lambda c: c.access.RevokeKey(keys.RevokeKeyRequest()), "key_id"),
    "page": (lambda c: c.access.ListKeys(keys.ListKeysRequest(page_token="x")), "page_token"),
    "subject": (lambda c: c.watchdog.GetTimeline(watch.GetTimelineRequest()), "subject"),
    "url": (
        lambda c: c.watchdog.GetTimeline(
            watch.GetTimelineRequest(change_request_url="octo-org/widgets 7")
        ),
        "change_request_url",
    ),
    "no web address": (
        lambda c: c.watchdog.GetTimeline(watch.GetTimelineRequest(change_request_url="urn:a:b")),
        "change_request_url",
    ),
}


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_field_is_named(
    stage: Stage, tenant: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client would say so itself: here the server has to.
    monkeypatch.setattr("fencepost.channel.check", lambda _message: None)
    call, field_name = INVALID[name]
    async with stage.client(tenant) as client:
        with pytest.raises(FieldInvalid) as refused:
            await call(client)
        assert {violation[0] for violation in refused.value.violations} == {field_name}
        assert await stage.rows.all("request_ids", tenant=tenant) == []


async def test_a_story_is_told_with_ids_and_times(stage: Stage, tenant: str) -> None:
    row = await stage.rows.delivery(tenant=tenant, delivery_id="d-1", outcome="ignored")
    async with stage.client(tenant) as client:
        told = await client.watchdog.GetTimeline(watch.GetTimelineRequest(delivery_id="d-1"))
    [event] = told.events
    assert event.at.ToMicroseconds() == round(row["received_at"].timestamp() * 1_000_000)
    assert (event.service, event.kind) == ("ingress", "delivery.ignored")
    assert dict(event.ids) == {"endpoint": "github", "delivery_id": "d-1"}
    assert told.title == "delivery d-1"
    assert not told.truncated


@pytest.mark.guarantee("W5")
async def test_each_figure_is_a_value_or_a_reason_and_metrics_have_no_sample_for_it(
    stage: Stage, tenant: str
) -> None:
    async with stage.client(tenant) as client:
        answer = await client.watchdog.GetStatus(watch.GetStatusRequest())
    seen = {figure.name: figure for figure in answer.figures}
    seen.pop("endpoint_heard_age_seconds")
    absent = seen.pop("last_delivery_age_seconds")
    assert absent.WhichOneof("observation") == "unobservable_reason"
    assert absent.unobservable_reason == "no delivery has been stored yet"
    for figure in seen.values():
        assert figure.WhichOneof("observation") == "value", figure
        assert figure.at.seconds
        assert figure.description

    def scraped() -> str:
        with urllib.request.urlopen(f"http://{stage.watchdog.admin}/metrics", timeout=5) as page:
            return str(page.read().decode())

    await until(lambda: 'status_figure{figure="intents_ready"}' in scraped(), what="the gauges")


@pytest.mark.guarantee("W5")
async def test_without_a_database_the_call_answers_that_nothing_can_be_observed(
    owner_url: str,
) -> None:
    """Its key is known for a moment longer; then callers are told that the database is away."""
    environment = {
        "WATCHDOG_KEY_CACHE_MS": "2000",
        "WATCHDOG_DATABASE_CONNECT_TIMEOUT_MS": "500",
    }
    async with (
        await AsyncConnection.connect(owner_url, autocommit=True) as connection,
        DatabaseProxy.before(as_service(owner_url, "watchdog")) as proxy,
        served_beside(proxy.url(), environment) as watchdog,
        Stage(watchdog, Rows(connection)).client("acme") as client,
    ):
        await Rows(connection).delivery(received_at=from_now(-1000))
        await put_endpoint(Rows(connection), "acme", "github")
        seen = await client.watchdog.GetStatus(watch.GetStatusRequest())
        assert {each.WhichOneof("observation") for each in seen.figures} == {"value"}
        await proxy.cut()
        gone = await client.watchdog.GetStatus(watch.GetStatusRequest())
        names = dict.fromkeys(each.name for each in seen.figures)
        assert [each.name for each in gone.figures] == list(names)
        for figure in gone.figures:
            assert figure.unobservable_reason == "the database does not answer"
            assert 0 <= figure.at.seconds - seen.figures[0].at.seconds < 30
        await until(lambda: _unavailable(client), what="the key to be asked for again")


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize("name", ["GetStatus", "GetTimeline"])
async def test_before_a_silent_database_a_new_caller_is_told_that_it_is_away(
    owner_url: str, name: str
) -> None:
    """Its key cannot be looked up: that is said long before the call's deadline."""
    _, call = CALLS[name]
    async with (
        await AsyncConnection.connect(owner_url, autocommit=True) as connection,
        DatabaseProxy.before(as_service(owner_url, "watchdog")) as proxy,
        served_beside(proxy.url(), {}) as watchdog,
        Stage(watchdog, Rows(connection)).client("acme", retries=False) as client,
    ):
        proxy.freeze()
        began_s = monotonic()
        with pytest.raises(DatabaseUnavailable):
            await call(client)
        assert monotonic() - began_s < AWAY_WITHIN_S
        await proxy.restore()
        await until(lambda: _answers(client, call), what="the watchdog to answer again")


async def _answers(client: Client, call: Call) -> bool:
    try:
        await call(client)
    except DatabaseUnavailable:
        return False
    return True


async def _unavailable(client: Client) -> bool:
    try:
        await client.watchdog.GetStatus(watch.GetStatusRequest())
    except DatabaseUnavailable:
        return True
    return False
