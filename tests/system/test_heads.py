"""A command whose head nobody knows: dispatcher asks publisher, publisher asks forge; then work."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fencepost.publisher.v1 import connections_pb2
from psycopg import AsyncConnection

from examples.scripted_forge.client import PullFixture, ScriptedForge
from shared.embedded.server import free_port
from shared.sealing import new_key_line
from tests.database_server import as_service
from tests.rows import Rows, Work
from tests.service_process import service_process
from tests.services.publisher.wire import calling
from tests.waiting import until

HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
INSTANCE = "git.test"
REPO_ID = 7_000_000_001
PLACE = {"forge_instance": INSTANCE, "repo_id": REPO_ID, "number": 7}
SUFFIX = "manual-1024"


@pytest.fixture
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedForge]:
    with ScriptedForge.start(tmp_path_factory.mktemp("forge")) as forge:
        forge.add_repo("o/r", PullFixture(number=7, head_sha=HEAD), repo_id=REPO_ID)
        yield forge


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


async def command(rows: Rows) -> Work:
    """A command as ingress stores it."""
    key = f"{INSTANCE}/{REPO_ID}#7@pending:{SUFFIX}"
    work = await rows.bare_intent(**PLACE, suffix=SUFFIX, generation=0, key=key)
    await rows.waiting(work, waits_on="head", due_in_ms=0)
    return work


async def connect(address: str, admin_key: str, forge: ScriptedForge) -> None:
    put = connections_pb2.PutConnectionRequest(
        forge_instance=INSTANCE,
        forge=connections_pb2.FORGE_KIND_FORGEJO,
        base_url=f"{forge.url}/api/v1",
        token=forge.token,
    )
    async with calling(address, admin_key) as admin:
        await admin.call("PutConnection", put)


@pytest.mark.guarantee("I7")
@pytest.mark.timeout(120)
async def test_a_command_gets_its_head_once_the_publisher_is_there(
    rows: Rows, owner_url: str, forge: ScriptedForge
) -> None:
    work = await command(rows)
    address = f"127.0.0.1:{free_port()}"
    dispatcher = {
        "DISPATCHER_API_KEY": await rows.api_key("heads_read", tenant=None),
        "DISPATCHER_PUBLISHER_ADDRESS": address,
        "DISPATCHER_PUBLISHER_TIMEOUT_MS": "500",
        "DISPATCHER_POLL_INTERVAL_MS": "50",
    }
    url, keys = as_service(owner_url, "publisher"), {"PUBLISHER_SEALING_KEYS": new_key_line("k1")}
    with service_process("publisher", url, keys) as publisher:
        await connect(publisher.grpc, await rows.api_key("connections_admin"), forge)

    async def placed() -> list[dict[str, Any]]:
        return await rows.all("ready", intent_id=work.intent_id)

    with service_process("dispatcher", as_service(owner_url, "dispatcher"), dispatcher) as process:
        await until(lambda: process.logged("a tick failed"), what="the dispatcher to ask in vain")
        assert (await rows.one("waiting"))["attempts"] == 0
        with service_process("publisher", url, {**keys, "PUBLISHER_GRPC_ADDRESS": address}):
            [ready] = await until(placed, what="the command to be ready", deadline_s=60)
    key = f"{INSTANCE}/{REPO_ID}#7@{HEAD}:{SUFFIX}"
    intent = await rows.one("intents", intent_id=work.intent_id)
    assert (ready["key"], intent["key"], intent["head_sha"]) == (key, key, HEAD)
    assert intent["key_label"] == f"o/r#7@{HEAD}:{SUFFIX}"
    recorded = await rows.one("change_requests")
    assert (recorded["forge"], recorded["repo_name"]) == ("forgejo", "o/r")
    assert recorded["url"] == f"{forge.url}/o/r/pulls/7"
