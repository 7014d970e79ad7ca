"""Connections and heads over the wire; tokens go in, and nothing that is emitted has them."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from fencepost.errors import (
    ConnectionDisabled,
    ConnectionMissing,
    FencepostError,
    FieldInvalid,
    ForgeUnavailable,
    ResourceNotFound,
    ScopeMissing,
)
from fencepost.publisher.v1 import connections_pb2 as pb
from fencepost.publisher.v1 import heads_pb2
from google.protobuf.message import Message

from examples.scripted_forge.client import PullFixture, ScriptedForge
from shared.schema.grants import Service
from shared.schema.tables.base import metadata
from tests.rows import Rows
from tests.services.publisher.connections.conftest import KEY_1
from tests.services.publisher.served import Served, served
from tests.services.publisher.wire import calling

HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
INSTANCE = "forge.test"
REPO_ID = 6_000_000_001


@pytest.fixture(scope="module")
def canary_forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedForge]:
    """A forge that nobody's settings name; its token is what must not be seen."""
    token = "ghs_CANARY0123456789abcdefghij-not-for-eyes"
    with ScriptedForge.start(tmp_path_factory.mktemp("canary"), token=token) as forge:
        forge.add_repo("o/r", PullFixture(number=7, head_sha=HEAD), repo_id=REPO_ID)
        yield forge


@dataclass(frozen=True)
class Wire:
    """A publisher that runs, and callers of it."""

    publisher: Served
    rows: Rows
    forge: ScriptedForge

    async def call(
        self, rpc: str, request: Message, *scopes: str, tenant: str | None = "acme"
    ) -> Any:
        """One call with a new key."""
        key = await self.rows.api_key(*scopes, tenant=tenant)
        async with calling(self.publisher.grpc, key) as caller:
            return await caller.call(rpc, request)

    async def admin(self, rpc: str, request: Message, *, tenant: str | None = "acme") -> Any:
        """One call of an admin of connections."""
        scopes = ("connections_admin",) if tenant else ("connections_admin", "operate")
        return await self.call(rpc, request, *scopes, tenant=tenant)

    async def put(self, **changes: Any) -> pb.PutConnectionResponse:
        """Connects acme to the forge."""
        given = {
            "forge_instance": INSTANCE,
            "forge": pb.FORGE_KIND_GITHUB,
            "base_url": self.forge.url + "/",
            "token": self.forge.token,
        }
        answer = await self.admin("PutConnection", pb.PutConnectionRequest(**{**given, **changes}))
        assert isinstance(answer, pb.PutConnectionResponse)
        return answer

    async def head(self, *, named: str = "", key_of: str | None = "acme") -> Any:
        """Asks for the head with a key of this tenant, or of none as the dispatcher's is."""
        request = heads_pb2.ResolveHeadRequest(
            forge_instance=INSTANCE, repo_id=REPO_ID, number=7, tenant=named
        )
        return await self.call("ResolveHead", request, "heads_read", tenant=key_of)


@pytest.fixture
async def wire(
    rows: Rows,
    forge: ScriptedForge,
    canary_forge: ScriptedForge,
    service_url: Callable[[Service], str],
) -> AsyncIterator[Wire]:
    environment = {"PUBLISHER_SEALING_KEYS": KEY_1, "PUBLISHER_FORGE_READ_ATTEMPTS_MAX": "1"}
    with served(service_url("publisher"), forge, environment) as publisher:
        yield Wire(publisher, rows, canary_forge)
    canary_forge.clear_faults()


@pytest.mark.guarantee("K1", "I7")
async def test_a_connection_is_kept_used_listed_disabled_and_sealed_anew(wire: Wire) -> None:
    put = await wire.put()
    connection = put.connection
    assert put.changed
    assert (connection.tenant, connection.forge_instance) == ("acme", INSTANCE)
    assert (connection.forge, connection.base_url) == (pb.FORGE_KIND_GITHUB, wire.forge.url)
    assert (connection.version, connection.sealing_key_id) == (1, "k1")
    head = await wire.head()
    assert (head.head_sha, head.state) == (HEAD, heads_pb2.CHANGE_REQUEST_STATE_OPEN)
    assert (head.forge, head.repo_name, head.base_ref) == (pb.FORGE_KIND_GITHUB, "o/r", "master")
    assert head.url == f"{wire.forge.url}/o/r/pull/7"
    assert head.HasField("updated_at")
    listed = await wire.admin("ListConnections", pb.ListConnectionsRequest())
    assert list(listed.connections) == [connection]
    rotated = await wire.admin("RotateSealingKey", pb.RotateSealingKeyRequest())
    assert (rotated.active_key_id, rotated.rewrapped) == ("k1", 0)
    disabling = pb.DisableConnectionRequest(forge_instance=INSTANCE, reason="leaked")
    disabled = await wire.admin("DisableConnection", disabling)
    assert disabled.connection.HasField("disabled_at")
    with pytest.raises(ConnectionDisabled):
        await wire.head()


@pytest.mark.guarantee("X8")
async def test_a_key_of_no_tenant_says_whose_connection_and_a_tenants_key_only_its_own(
    wire: Wire,
) -> None:
    await wire.put()
    assert (await wire.head(named="acme", key_of=None)).head_sha == HEAD
    assert (await wire.head(named="acme", key_of="acme")).head_sha == HEAD
    with pytest.raises(FieldInvalid, match="tenant"):
        await wire.head(named="", key_of=None)
    with pytest.raises(ScopeMissing):
        await wire.head(named="acme", key_of="globex")
    with pytest.raises(ConnectionMissing):
        await wire.head(named="globex", key_of=None)


@pytest.mark.guarantee("X8")
async def test_an_admin_of_one_tenant_sees_no_others(wire: Wire) -> None:
    await wire.put()
    listed = await wire.admin("ListConnections", pb.ListConnectionsRequest(), tenant="globex")
    assert not listed.connections
    everybody = await wire.admin("ListConnections", pb.ListConnectionsRequest(), tenant=None)
    assert [each.tenant for each in everybody.connections] == ["acme"]
    with pytest.raises(FieldInvalid, match="tenant"):
        await wire.admin(
            "DisableConnection", pb.DisableConnectionRequest(forge_instance="x"), tenant=None
        )


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"forge_instance": "Forge.Test"}, "forge_instance"),
    ({"forge": 0}, "forge"),
    ({"base_url": "https://forge.test/a b"}, "base_url"),
    ({"base_url": "ftp://forge.test"}, "base_url"),
    ({"token": "two words"}, "token"),
    ({"token": ""}, "token"),
]


@pytest.mark.guarantee("X4")
async def test_a_wrong_field_of_a_connection_is_named(wire: Wire) -> None:
    for wrong, field in WRONG:
        with pytest.raises(FieldInvalid) as refusal:
            await wire.put(**wrong)
        assert [each[0] for each in refusal.value.violations] == [field]
    assert await wire.rows.all("connections") == []


@pytest.mark.guarantee("K2")
async def test_nothing_that_the_publisher_emits_holds_a_token(wire: Wire) -> None:
    """Every way in which a forge may fail or echo, then all that was said, logged and stored."""
    said: list[object] = [await wire.put(), await wire.put(token=wire.forge.token)]
    echo = json.dumps({"message": wire.forge.token, "documentation_url": wire.forge.token})
    for status in (200, 302, 401, 404, 500):
        wire.forge.fault(
            "status",
            method="GET",
            status=status,
            body=echo,
            headers={"x-echo": wire.forge.token, "location": f"http://127.0.0.1:9/{status}"},
        )
        with pytest.raises((ForgeUnavailable, ResourceNotFound)) as refusal:
            await wire.head()
        said += [refusal.value, refusal.value.__cause__]
    for bad in ({"base_url": "ftp://x"}, {"forge": pb.FORGE_KIND_GITEA}):
        with pytest.raises(FencepostError) as refused:
            await wire.put(**bad)
        said += [refused.value, refused.value.__cause__]
    said.append(await wire.admin("ListConnections", pb.ListConnectionsRequest()))
    wire.publisher.ask_to_stop()
    assert wire.publisher.stopped() == 0
    said += wire.publisher.logs
    said += [await wire.rows.all(table.name) for table in metadata.sorted_tables]
    text = "\n".join(map(repr, said))
    for form in forms_of(wire.forge.token):
        assert form not in text


def forms_of(token: str) -> list[str]:
    """The token as it may be written: whole, quoted, in base64, in hex, and any part of it."""
    parts = [token[at : at + 12] for at in range(len(token) - 11)]
    encoded = base64.b64encode(token.encode()).decode().rstrip("=")
    return [token, quote(token), encoded, token.encode().hex(), *parts]
