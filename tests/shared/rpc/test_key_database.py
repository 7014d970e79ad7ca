"""Goal: a revocation holds everywhere within 5 s, open streams included, and no sooner is anything
else said about a good key, whatever the database does (X2).

Method: keys in a real database, read as a service's own role; the network in front of it is cut.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence

import psycopg
import pytest
from fencepost.common.v1.access_pb2 import SCOPE_INTENTS_READ, SCOPE_WORK
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest
from fencepost.dispatcher.v1.work_pb2 import Heartbeat, Hello, WorkRequest, WorkResponse
from fencepost.errors import DatabaseUnavailable, KeyRevoked, KeyUnknown
from psycopg import sql

from shared.credentials import new_credential
from shared.database import Database
from shared.rpc.authentication import Authenticator
from shared.rpc.caller import scope_name
from shared.rpc.key_store import KeyRow, keys
from shared.rpc.key_watch import key_watch
from shared.schema.grants import Service
from tests.database_proxy import DatabaseProxy
from tests.rows import Rows
from tests.shared.rpc.raw import raw_stub
from tests.shared.rpc.served import SESSION_ID, Served, serving, settings_for
from tests.waiting import until

REQUEST = GetIntentRequest(intent_id=1)
HELLO = WorkRequest(hello=Hello(session_id=SESSION_ID, queues=["reviews"]))
WITHIN_S = 5
LOOKUP_TIMEOUT_MS = 300

pytestmark = pytest.mark.guarantee("X2")


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await psycopg.AsyncConnection.connect(owner_url, autocommit=True) as owner:
        yield Rows(owner)


@pytest.fixture
async def proxy(service_url: Callable[[Service], str]) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy.before(service_url("dispatcher")) as proxy:
        yield proxy


@pytest.fixture
async def api_key(rows: Rows) -> str:
    credential = new_credential()
    await rows.insert(
        "api_keys",
        key_id=credential.key_id,
        tenant="acme",
        label="test",
        scopes=[scope_name(SCOPE_INTENTS_READ), scope_name(SCOPE_WORK), "of_a_newer_version"],
        secret_sha256=credential.secret_sha256,
        created_by="test",
    )
    return credential.text


@pytest.fixture
async def served(proxy: DatabaseProxy, api_key: str) -> AsyncIterator[Served]:
    settings = settings_for(
        database_url=proxy.url(), database_connect_timeout_ms=500, database_statement_timeout_ms=500
    )
    async with Database.create(settings, application_name="test") as database:

        async def lookup(key_ids: Sequence[str]) -> list[KeyRow]:
            return await database.read(lambda tx: keys(tx, key_ids))

        async with serving(lookup=lookup, api_key=api_key) as served:
            yield served


async def revoke(rows: Rows, api_key: str) -> float:
    where = {"key_id": api_key.split("_")[1]}
    assert await rows.change("api_keys", where, ends_at=sql.SQL("clock_timestamp()")) == 1
    return time.monotonic()


async def refused_with(stub: object, error: type[Exception]) -> bool:
    try:
        await raw_get(stub)
    except error:
        return True
    return False


async def raw_get(stub: object) -> object:
    return await stub.GetIntent(REQUEST)  # type: ignore[attr-defined]  # a generated stub


async def test_a_revoked_key_is_refused_by_the_next_calls(
    served: Served, rows: Rows, api_key: str
) -> None:
    stub = served.intent_stub()
    await stub.GetIntent(REQUEST)
    revoked_at = await revoke(rows, api_key)
    await until(lambda: refused_with(stub, KeyRevoked), what="the key to be refused")
    assert time.monotonic() - revoked_at < WITHIN_S


async def test_an_open_stream_of_a_revoked_key_is_ended(
    served: Served, rows: Rows, api_key: str
) -> None:
    session = served.work_stub().Work()
    await session.write(HELLO)
    await session.read()
    watch = key_watch(served.pipeline.calls, served.pipeline.authenticator)
    watch.start()
    revoked_at = await revoke(rows, api_key)
    with pytest.raises(KeyRevoked):
        await session.read()
    assert time.monotonic() - revoked_at < WITHIN_S
    assert served.sessions.ended == ["CancelledError"]
    await watch.stop()


async def test_a_key_that_ends_later_is_good_until_then(
    served: Served, rows: Rows, api_key: str
) -> None:
    where = {"key_id": api_key.split("_")[1]}
    soon = sql.SQL("clock_timestamp() + interval '0.5 s'")
    await rows.change("api_keys", where, ends_at=soon)
    stub = served.intent_stub()
    await stub.GetIntent(REQUEST)
    await until(lambda: refused_with(stub, KeyRevoked), what="the key to end")


async def test_a_key_that_is_made_later_is_known_soon(served: Served, rows: Rows) -> None:
    credential = new_credential()
    stub = served.intent_stub(api_key=credential.text)
    with pytest.raises(KeyUnknown):
        await stub.GetIntent(REQUEST)
    await rows.insert(
        "api_keys",
        key_id=credential.key_id,
        label="late",
        scopes=["intents_read"],
        secret_sha256=credential.secret_sha256,
        created_by="test",
    )
    until_known = served.pipeline.authenticator
    metadata = {"authorization": f"Bearer {credential.text}"}

    async def known() -> bool:
        try:
            return (await until_known.caller(metadata)).tenant is None
        except KeyUnknown:
            return False

    await until(known, what="the key to be known")


async def test_without_the_database_a_checked_key_serves_its_time_and_is_never_unknown(
    served: Served, proxy: DatabaseProxy
) -> None:
    stub = raw_stub(served)
    session = served.work_stub().Work()
    await session.write(HELLO)
    await session.read()
    watch = key_watch(served.pipeline.calls, served.pipeline.authenticator)
    watch.start()
    await stub.GetIntent(REQUEST)
    await proxy.cut()
    await stub.GetIntent(REQUEST)
    await until(lambda: refused_with(stub, DatabaseUnavailable), what="the cache to end")
    await watch.stop()
    await session.write(WorkRequest(heartbeat=Heartbeat()))
    answer = await session.read()
    assert isinstance(answer, WorkResponse)
    assert answer.HasField("heartbeat_ack")
    await proxy.restore()
    await until(lambda: works(stub), what="the key to be good again")


async def test_before_a_silent_database_each_call_waits_for_its_own_time_only(
    proxy: DatabaseProxy, api_key: str
) -> None:
    """Neither for as long as the database may be silent, nor for the calls that came before."""
    silent_for_long = settings_for(
        database_url=proxy.url(), database_statement_timeout_ms=600_000, key_cache_ms=0
    )
    async with Database.create(silent_for_long, application_name="test") as database:

        async def lookup(key_ids: Sequence[str]) -> list[KeyRow]:
            return await database.read(lambda tx: keys(tx, key_ids))

        trusted = Authenticator(lookup, cache_ms=0, lookup_timeout_ms=LOOKUP_TIMEOUT_MS)
        sent = {"authorization": f"Bearer {api_key}"}
        await trusted.caller(sent)
        proxy.freeze()
        for _ in range(2):
            began_s = time.monotonic()
            calls = [trusted.caller(each) for each in (sent, *strangers(3))]
            told = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in told] == [DatabaseUnavailable] * 4
            assert LOOKUP_TIMEOUT_MS / 1000 <= time.monotonic() - began_s < WITHIN_S
        await proxy.restore()

        async def is_good() -> bool:
            try:
                return (await trusted.caller(sent)).tenant == "acme"
            except DatabaseUnavailable:
                return False

        await until(is_good, what="the key to be good again")


def strangers(count: int) -> list[dict[str, str]]:
    """What callers send whose keys nobody has asked for yet."""
    return [{"authorization": f"Bearer {new_credential().text}"} for _ in range(count)]


async def works(stub: object) -> bool:
    try:
        await raw_get(stub)
    except DatabaseUnavailable:
        return False
    return True


def test_a_stored_digest_is_never_shown() -> None:
    row = KeyRow(key_id="k", tenant=None, scopes=(), secret_sha256=b"digest", ended=False)
    assert "digest" not in repr(row)
