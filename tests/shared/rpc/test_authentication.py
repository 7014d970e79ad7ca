"""Goal: every call is authenticated and has its scope, and a revoked key is refused in time (X2).

Method: keys that the test holds; how often they are looked up is counted, and time is a short
cache. The same against a database: test_key_database.py.
"""

import asyncio
import time
from collections.abc import Sequence

import grpc
import pytest
from fencepost.common.v1.access_pb2 import SCOPE_INTENTS_READ, SCOPE_OPERATE, SCOPE_WORK
from fencepost.common.v1.server_info_pb2 import GetServerInfoRequest
from fencepost.common.v1.server_info_pb2_grpc import ServerInfoServiceStub
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.errors import (
    DatabaseUnavailable,
    FieldInvalid,
    KeyRevoked,
    KeyUnknown,
    ScopeMissing,
)
from fencepost.metadata import TENANT
from grpc import aio
from grpc_health.v1 import health, health_pb2

from shared.credentials import new_credential
from shared.rpc import authentication
from shared.rpc.authentication import Authenticator, Lookup
from shared.rpc.caller import Caller, current_caller
from shared.rpc.key_store import KeyRow
from shared.rpc.methods import Methods, ServiceCannotBeServedError
from tests.shared.rpc.raw import health_of
from tests.shared.rpc.served import Context, Keys, serving
from tests.waiting import until

REQUEST = GetIntentRequest(intent_id=1)
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

pytestmark = pytest.mark.guarantee("X2")


def bearer(text: str, **more: str) -> dict[str, str | bytes]:
    return {"authorization": f"Bearer {text}", **more}


def authenticator(keys: Keys, *, cache_ms: int = 60_000) -> Authenticator:
    return authenticator_by(keys.lookup, cache_ms=cache_ms)


def authenticator_by(lookup: Lookup, *, cache_ms: int = 60_000) -> Authenticator:
    return Authenticator(lookup, cache_ms=cache_ms, lookup_timeout_ms=30_000)


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"authorization": "Basic YTpi"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer fp_short_x"},
        {"authorization": b"Bearer"},
    ],
    ids=["nothing", "another scheme", "empty", "no credential", "bytes"],
)
async def test_what_is_no_credential_is_unknown_without_a_lookup(
    sent: dict[str, str | bytes],
) -> None:
    keys = Keys()
    with pytest.raises(KeyUnknown):
        await authenticator(keys).caller(sent)
    assert keys.lookups == 0


async def test_a_wrong_secret_is_as_unknown_as_a_wrong_id() -> None:
    keys = Keys()
    key_id = keys.add(ended=True).split("_")[1]
    other = new_credential()
    for text in (f"fp_{key_id}_{other.secret}", other.text):
        with pytest.raises(KeyUnknown):
            await authenticator(keys).caller(bearer(text))


async def test_only_the_holder_learns_that_a_key_was_revoked() -> None:
    keys = Keys()
    text = keys.add(ended=True)
    with pytest.raises(KeyRevoked):
        await authenticator(keys).caller(bearer(text))


async def test_a_checked_key_is_trusted_for_the_time_of_the_cache_and_no_longer() -> None:
    keys = Keys()
    text = keys.add()
    lasting, fleeting = authenticator(keys), authenticator(keys, cache_ms=0)
    for _ in range(3):
        await lasting.caller(bearer(text))
    assert keys.lookups == 1
    await fleeting.caller(bearer(text))
    keys.end(text)
    with pytest.raises(KeyRevoked):
        await fleeting.caller(bearer(text))


async def test_an_answer_is_as_old_as_its_question() -> None:
    keys = Keys()
    text = keys.add()

    async def slow(key_ids: Sequence[str]) -> list[KeyRow]:
        asked_s = time.monotonic()
        await until(lambda: time.monotonic() - asked_s > 0.1, what="the cache's time to pass")
        return await keys.lookup(key_ids)

    trusted = authenticator_by(slow, cache_ms=100)
    for _ in range(2):
        await trusted.caller(bearer(text))
    assert keys.lookups == 2


async def test_unknown_keys_are_remembered_too_and_never_push_out_known_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authentication, "ENTRIES_MAX", 5)
    keys = Keys()
    text = keys.add()
    trusted = authenticator(keys)
    await trusted.caller(bearer(text))
    unknown = [new_credential().text for _ in range(20)]
    with_another_secret = f"fp_{text.split('_')[1]}_{new_credential().secret}"
    for each in [*unknown, *unknown[-5:], with_another_secret]:
        with pytest.raises(KeyUnknown):
            await trusted.caller(bearer(each))
    await trusted.caller(bearer(text))
    assert keys.lookups == 1 + len(unknown)
    # Only so many are remembered.
    with pytest.raises(KeyUnknown):
        await trusted.caller(bearer(unknown[0]))
    assert keys.lookups == 2 + len(unknown)


async def test_keys_that_are_wanted_at_once_are_looked_up_together() -> None:
    keys = Keys()
    trusted = authenticator(keys)
    sent = [bearer(keys.add()) for _ in range(50)]
    callers = await asyncio.gather(*(trusted.caller(each) for each in sent * 4))
    assert len({caller.key_id for caller in callers}) == 50
    assert keys.lookups <= 2


async def test_a_database_that_is_away_never_makes_a_good_key_unknown() -> None:
    keys = Keys()
    away = False

    async def lookup(key_ids: Sequence[str]) -> list[KeyRow]:
        if away:
            raise DatabaseUnavailable
        return await keys.lookup(key_ids)

    text, other = keys.add(), keys.add()
    trusted = authenticator_by(lookup)
    await trusted.caller(bearer(text))
    away = True
    await trusted.caller(bearer(text))
    with pytest.raises(DatabaseUnavailable):
        await trusted.caller(bearer(other))
    away = False
    await trusted.caller(bearer(other))


async def test_what_is_wanted_while_the_database_is_silent_fails_with_it() -> None:
    """Else made-up keys would pile up for as long as it is silent, a lookup's share at a time."""
    asked, silence = asyncio.Event(), asyncio.Event()

    async def lookup(_: Sequence[str]) -> list[KeyRow]:
        asked.set()
        await silence.wait()
        raise DatabaseUnavailable

    trusted = authenticator_by(lookup)
    first = asyncio.create_task(trusted.caller(bearer(new_credential().text)))
    await asked.wait()
    asked.clear()
    others = [asyncio.create_task(trusted.caller(bearer(new_credential().text))) for _ in range(9)]
    await asyncio.sleep(0)
    silence.set()
    told = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(each) for each in told] == [DatabaseUnavailable] * 10
    assert not asked.is_set()


async def test_one_callers_going_away_takes_no_answer_from_the_others() -> None:
    keys = Keys()
    asked, answer = asyncio.Event(), asyncio.Event()

    async def lookup(key_ids: Sequence[str]) -> list[KeyRow]:
        asked.set()
        await answer.wait()
        return await keys.lookup(key_ids)

    trusted = authenticator_by(lookup)
    sent = bearer(keys.add())
    gone, stays = (asyncio.create_task(trusted.caller(sent)) for _ in range(2))
    await asked.wait()
    gone.cancel()
    answer.set()
    assert (await stays).tenant == "acme"


async def test_each_rpc_asks_for_its_own_scope() -> None:
    keys = Keys()
    reader, worker = keys.add(scopes=[SCOPE_INTENTS_READ]), keys.add(scopes=[SCOPE_WORK])
    async with serving(lookup=keys.lookup, api_key=reader) as served:
        await served.intent_stub().GetIntent(REQUEST)
        with pytest.raises(ScopeMissing) as refused:
            await served.intent_stub(api_key=worker).GetIntent(REQUEST)
        assert (refused.value.scope, served.intents.calls) == ("intents_read", 1)


async def test_without_a_key_nothing_but_health_answers() -> None:
    async with serving() as served:
        channel = aio.insecure_channel(served.server.address)
        assert await health_of(channel) == health_pb2.HealthCheckResponse.SERVING
        reflect: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(REFLECTION)
        with pytest.raises(aio.AioRpcError) as refused:
            await reflect(iter([b""])).read()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        await channel.close()
        for stub in (served.intent_stub(api_key=None), served.intent_stub(api_key="fp_a_b")):
            with pytest.raises(KeyUnknown):
                await stub.GetIntent(REQUEST)
        assert served.intents.calls == 0


async def test_any_key_may_ask_what_the_server_is() -> None:
    keys = Keys()
    async with serving(lookup=keys.lookup, api_key=keys.add(scopes=[SCOPE_WORK])) as served:
        info = await ServerInfoServiceStub(served.channel()).GetServerInfo(GetServerInfoRequest())
    assert (info.service, info.schema_revision_found) == ("test", 7)
    assert info.limits["message_limit_bytes"] == 32 * 1024 * 1024


async def test_a_service_whose_rpc_names_no_scope_is_not_served() -> None:
    with pytest.raises(ServiceCannotBeServedError, match="names no required_scope"):
        Methods().add(health.aio.HealthServicer())
    with pytest.raises(ServiceCannotBeServedError, match="no generated servicer"):
        Methods().add(object())


@pytest.mark.guarantee("X8")
async def test_a_call_is_for_the_keys_own_tenant() -> None:
    keys = Keys()
    assert await tenant_seen(keys, keys.add(tenant="acme")) == "acme"
    assert await tenant_seen(keys, keys.add(tenant="acme"), named="acme") == "acme"


@pytest.mark.guarantee("X8")
async def test_another_tenants_name_is_refused_whether_it_exists_or_not() -> None:
    keys = Keys()
    keys.add(tenant="globex")
    text = keys.add(tenant="acme", scopes=[SCOPE_INTENTS_READ, SCOPE_OPERATE])
    refusals = []
    for named in ("globex", "nobody"):
        with pytest.raises(ScopeMissing) as refused:
            await tenant_seen(keys, text, named=named)
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


@pytest.mark.guarantee("X8")
async def test_an_operators_key_names_its_tenant_or_sees_all() -> None:
    keys = Keys()
    operator = keys.add(tenant=None, scopes=[SCOPE_INTENTS_READ, SCOPE_OPERATE])
    assert await tenant_seen(keys, operator, named="globex") == "globex"
    with pytest.raises(FieldInvalid) as refused:
        await tenant_seen(keys, operator)
    assert refused.value.violations[0][0] == TENANT
    caller = await authenticator(keys).caller(bearer(operator))
    assert caller.tenant_or_all() is None


@pytest.mark.guarantee("X8")
async def test_a_services_key_of_no_tenant_may_not_name_one() -> None:
    keys = Keys()
    service = keys.add(tenant=None, scopes=[SCOPE_INTENTS_READ])
    with pytest.raises(ScopeMissing):
        await tenant_seen(keys, service, named="acme")


async def tenant_seen(keys: Keys, text: str, *, named: str | None = None) -> str:
    """The tenant that a servicer acts for."""
    seen: list[Caller] = []

    async def answer(_request: object, _context: Context) -> GetIntentResponse:
        seen.append(current_caller())
        current_caller().require_tenant()
        return GetIntentResponse()

    async with serving(lookup=keys.lookup, api_key=text) as served:
        served.intents.answer = answer
        await served.intent_stub(tenant=named).GetIntent(REQUEST)
    return seen[0].require_tenant()
