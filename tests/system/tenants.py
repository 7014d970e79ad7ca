"""Two tenants on one suite: one has a row in every table, the other asks for what is not its."""

import importlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fencepost
from fencepost.channel import Channel, ChannelSettings, connect
from fencepost.common.v1 import access_pb2
from fencepost.dispatcher.v1 import intents_pb2, intents_pb2_grpc
from fencepost.publisher.v1 import ledger_pb2, ledger_pb2_grpc
from fencepost.watchdog.v1 import access_pb2 as keys_pb2
from fencepost.watchdog.v1 import access_pb2_grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc import aio
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from shared.rpc.caller import Scope, scope_name
from shared.schema.grants import SERVICES, Service
from shared.schema.tables.base import SCHEMA, metadata
from shared.sealing import new_key_line
from tests.database_server import as_service
from tests.rows import NOW, ChangeRequest, Row, Rows, Work, from_now
from tests.service_process import service_process

THEIRS = "globex"
ENDPOINT = "github"
REQUEST_ID = "request-1"
SECRET = "whispered"
"""Stands in every free text of the other tenant's rows; no request of ours holds it."""

TENANT_TABLES = tuple(table.name for table in metadata.sorted_tables if "tenant" in table.c)
ALL_SCOPES = [
    scope_name(scope)
    for scope in Scope.values()
    if scope not in (access_pb2.SCOPE_UNSPECIFIED, access_pb2.SCOPE_ANY)
]

ENVIRONMENT: Mapping[Service, Mapping[str, str]] = {
    "ingress": {
        "INGRESS_WEBHOOK_ADDRESS": "127.0.0.1:0",
        "INGRESS_SEALING_KEYS": new_key_line("k1"),
    },
    "dispatcher": {"DISPATCHER_POLL_INTERVAL_MS": "50"},
    "publisher": {
        "PUBLISHER_FORGE_URL": "http://127.0.0.1:9",
        "PUBLISHER_FORGE_TOKEN": "none",
        "PUBLISHER_SEALING_KEYS": new_key_line("k1"),
    },
    "watchdog": {},
}


def rpcs() -> dict[str, MethodDescriptor]:
    """Every RPC of every contract, by its full name."""
    root = Path(fencepost.__file__).parent
    modules = [
        importlib.import_module(
            ".".join(("fencepost", *path.relative_to(root).parts))[: -len(".py")]
        )
        for path in sorted(root.rglob("*_pb2.py"))
    ]
    services = [each for m in modules for each in m.DESCRIPTOR.services_by_name.values()]
    return {method.full_name: method for service in services for method in service.methods}


@dataclass(frozen=True)
class Suite:
    """The four services on one database; addresses are host:port."""

    addresses: Mapping[Service, str]
    owner_url: str

    def serving(self, method: MethodDescriptor) -> list[str]:
        """Where the RPC is served: by the service of its package, or by all four."""
        name = method.full_name.split(".")[1]
        return [self.addresses[each] for each in SERVICES if name in (each, "common")]

    @asynccontextmanager
    async def rows(self, tenant: str) -> AsyncIterator[Rows]:
        """Makes rows of the tenant."""
        async with await AsyncConnection.connect(self.owner_url, autocommit=True) as connection:
            yield Rows(connection, tenant=tenant)


@contextmanager
def suite_on(owner_url: str) -> Iterator[Suite]:
    """Starts the four services."""
    with ExitStack() as running:
        yield Suite(
            {
                service: running.enter_context(
                    service_process(service, as_service(owner_url, service), ENVIRONMENT[service])
                ).grpc
                for service in SERVICES
            },
            owner_url,
        )


@dataclass(frozen=True, kw_only=True)
class Theirs:
    """What the other tenant has, by the ids that we shall present."""

    work: Work
    pull: ChangeRequest
    delivery_id: str
    session_id: str
    publication_id: int
    intent_ids: frozenset[int]
    hold_ids: frozenset[int]
    key_ids: frozenset[str]


async def seed(suite: Suite) -> Theirs:
    """A row of theirs in every table that has a tenant."""
    async with suite.rows(THEIRS) as rows:
        await _registered(rows)
        pull = await rows.change_request(base_ref=SECRET)
        work = await rows.intent(pull, payload=SECRET.encode(), reason=SECRET)
        delivery, session_id = await _arrived(rows, work)
        work = await rows.run(await rows.lease(work, session_id=session_id), phase=SECRET)
        publication = await rows.publication(work, name=SECRET, key_label=SECRET)
        await rows.attempt(publication, detail=SECRET, remote_url=f"https://{SECRET}")
        await rows.hold(tenant=THEIRS, action="nobody", reason=SECRET)
        await rows.ready(await rows.bare_intent(), priority=9)
        await rows.waiting(await rows.bare_intent(), due_in_ms=3_600_000, reason=SECRET)
        key = await rows.api_key(*ALL_SCOPES, tenant=THEIRS)
        await _asked(suite, key)
        return Theirs(
            work=work,
            pull=pull,
            delivery_id=delivery["delivery_id"],
            session_id=session_id,
            publication_id=publication["publication_id"],
            intent_ids=await _column(rows, "intents", "intent_id"),
            hold_ids=await _column(rows, "holds", "hold_id"),
            key_ids=await _column(rows, "api_keys", "key_id"),
        )


async def _column(rows: Rows, table: str, column: str) -> frozenset[Any]:
    return frozenset(row[column] for row in await rows.all(table, tenant=THEIRS))


async def _registered(rows: Rows) -> None:
    """Their endpoint with its secret, their queue, and their way into the forge."""
    await rows.insert(
        "endpoints",
        tenant=THEIRS,
        name=ENDPOINT,
        forge="github",
        forge_instance="github.com",
        proof="signature",
        routes=Jsonb([{"queue": "reviews", "action": SECRET}]),
        bot_ids=[],
        wanted_events=[SECRET],
        drafts="ignore",
    )
    sealed = {"sealing_key_id": SECRET, "wrapped_key": b"k" * 60, "ciphertext": SECRET.encode()}
    await rows.insert("endpoint_secrets", tenant=THEIRS, endpoint=ENDPOINT, version=1, **sealed)
    await rows.insert(
        "queues",
        tenant=THEIRS,
        name="reviews",
        retries_max=7,
        retry_delays_ms=[60_000],
        lease_ms=600_000,
    )
    await rows.insert(
        "connections",
        tenant=THEIRS,
        forge_instance="github.com",
        forge="github",
        base_url=f"https://{SECRET}",
        version=1,
        **sealed,
    )


async def _arrived(rows: Rows, work: Work) -> tuple[Row, str]:
    """How the work came in and to a worker, who left before it was granted to it again."""
    pull = work.change_request
    assert pull is not None
    place = {"repo_id": pull.repo_id, "number": pull.number, "key": work.key}
    delivery = await rows.delivery(event_action=SECRET, reason=SECRET, **place)
    marker = {name: delivery[name] for name in ("tenant", "endpoint", "delivery_id", "body_sha256")}
    expiry = {"expires_at": from_now(3_600_000)}
    await rows.insert("delivery_markers", **marker, **expiry)
    await rows.insert("body_markers", **marker, event=SECRET, **expiry)
    await rows.insert(
        "merge_groups",
        tenant=THEIRS,
        forge_instance="github.com",
        repo_id=1,
        head_sha="e" * 40,
        numbers=[7],
        gone_at=NOW,
        **expiry,
    )
    carried = ("tenant", "queue", "key", "key_label", "action", "generation", "intent_id")
    letter = {name: getattr(work, name) for name in carried}
    await rows.insert("dead_letters", **letter, attempts=1, reason=SECRET)
    session = await rows.insert(
        "sessions",
        session_id="6f1c5a52-0f0e-4ac5-9a55-54a4a1e9a001",
        tenant=THEIRS,
        key_id="k",
        queues=["reviews"],
        version=SECRET,
        replica="r",
        state="detached",
    )
    await rows.insert(
        "dispatches",
        **{name: getattr(work, name) for name in ("tenant", "key", "action", "generation")},
        intent_id=work.intent_id,
        epoch=7,
        holder="h",
        attempt=1,
        granted_at=NOW,
        outcome="released",
        outcome_sha256=b"",
        reason=SECRET,
    )
    await rows.insert(
        "run_spans",
        tenant=THEIRS,
        intent_id=work.intent_id,
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        service_name=SECRET,
        otlp_span=b"",
    )
    return delivery, session["session_id"]


async def _asked(suite: Suite, key: str) -> None:
    """Takes their request ids by real calls."""
    async with calling(suite.addresses["dispatcher"], key) as channel:
        await intents_pb2_grpc.IntentServiceStub(channel).EnqueueIntents(enqueue())
    async with calling(suite.addresses["publisher"], key) as channel:
        await ledger_pb2_grpc.LedgerServiceStub(channel).HoldPublications(hold())
    async with calling(suite.addresses["watchdog"], key) as channel:
        await access_pb2_grpc.AccessServiceStub(channel).CreateKey(create_key())


def enqueue() -> intents_pb2.EnqueueIntentsRequest:
    """What both tenants ask for under one request id: work of the future."""
    intent = intents_pb2.NewIntent(queue="later", action="container-dispatch", payload=b"{}")
    intent.not_before.FromJsonString("2100-01-01T00:00:00Z")
    return intents_pb2.EnqueueIntentsRequest(request_id=REQUEST_ID, intents=[intent])


def hold() -> ledger_pb2.HoldPublicationsRequest:
    """The same hold for both tenants, under one request id."""
    return ledger_pb2.HoldPublicationsRequest(
        request_id=REQUEST_ID, action="nobody", reason="the same"
    )


def create_key() -> keys_pb2.CreateKeyRequest:
    """The same key for both tenants, under one request id."""
    return keys_pb2.CreateKeyRequest(
        request_id=REQUEST_ID, label="the same", scopes=[access_pb2.SCOPE_WORK]
    )


@asynccontextmanager
async def calling(address: str, key: str, *, tenant: str | None = None) -> AsyncIterator[Channel]:
    """A channel with this key, for the tenant that it names."""
    async with connect(ChannelSettings(target=address, api_key=key, tenant=tenant)) as channel:
        yield channel


async def their_rows(rows: Rows) -> dict[str, str]:
    """A digest of each table's rows of theirs; a table that has none is left out."""
    digests = {}
    for table in TENANT_TABLES:
        statement = sql.SQL(
            "SELECT md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM {} AS t WHERE tenant = %s"
        ).format(sql.Identifier(SCHEMA, table))
        row = await (await rows.connection.execute(statement, [THEIRS])).fetchone()
        assert row is not None
        if row[0] is not None:
            digests[table] = row[0]
    return digests


async def answer(channel: Channel, method: MethodDescriptor, request: Message) -> Message:
    """What the method answers, without a generated stub."""
    service = method.containing_service
    assert service is not None
    call: aio.UnaryUnaryMultiCallable[Message, Message] = channel.unary_unary(
        f"/{service.full_name}/{method.name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    return await call(request)
