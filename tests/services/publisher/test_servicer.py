"""The publisher over the wire, as a process of its own: keys, tenants, fields and answers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from fencepost.errors import (
    FencepostError,
    FieldInvalid,
    KeyUnknown,
    LeaseLost,
    PublicationsHeld,
    RequestIdReused,
    ResourceNotFound,
    ScopeMissing,
)
from fencepost.publisher.v1 import connections_pb2, heads_pb2, ledger_pb2, publish_pb2
from google.protobuf.message import Message
from psycopg import AsyncConnection

from examples.scripted_forge.client import PullFixture, ScriptedForge
from services.publisher.ledger.rules import content_digest
from services.publisher.model import LineComment, Review, Verdict
from tests.database_server import DatabaseServer, as_service
from tests.rows import Rows, Work
from tests.services.publisher.served import served
from tests.services.publisher.wire import Caller, calling, review_request

COMMENT = publish_pb2.ReviewComment(path="src/a.py", line=3, body="Why?")
REASON = "bot gone wild"


@dataclass(frozen=True)
class Desk:
    """A publisher that runs; all tests of this module call it, each with a tenant of its own."""

    address: str
    owner_url: str
    forge: ScriptedForge


@pytest.fixture(scope="module")
def desk(database_server: DatabaseServer, forge: ScriptedForge) -> Iterator[Desk]:
    for owner_url in database_server.each_database():
        with served(as_service(owner_url, "publisher"), forge) as publisher:
            yield Desk(publisher.grpc, owner_url, forge)


@dataclass(frozen=True)
class Tenant:
    """One tenant's rows, and callers with its keys."""

    desk: Desk
    rows: Rows

    async def caller(
        self, *scopes: str, of_tenant: bool = True, named: str | None = None
    ) -> AbstractAsyncContextManager[Caller]:
        """A caller with a new key."""
        key = await self.rows.api_key(*scopes, tenant=self.rows.tenant if of_tenant else None)
        return calling(self.desk.address, key, tenant=named)

    async def call(self, rpc: str, request: Message, *scopes: str, **key: Any) -> Any:
        """One call with a new key."""
        async with await self.caller(*scopes, **key) as caller:
            return await caller.call(rpc, request)

    async def work(self) -> Work:
        """Work under way on a pull request that the forge has, too."""
        work = await self.rows.work()
        pull = work.change_request
        assert pull is not None
        self.desk.forge.add_repo(
            pull.repo_name, PullFixture(number=pull.number, head_sha=pull.head_sha)
        )
        return work

    async def written(self) -> list[object]:
        """What a refused call must leave as it is."""
        tables = ("publications", "publication_attempts", "holds", "audit_entries", "request_ids")
        return [await self.rows.all(table) for table in tables]

    async def refusal(self, rpc: str, request: Message, *scopes: str, **key: Any) -> FencepostError:
        """The error of a call that must change nothing."""
        before = await self.written()
        with pytest.raises(FencepostError) as refused:
            await self.call(rpc, request, *scopes, **key)
        assert await self.written() == before
        return refused.value


@pytest.fixture
async def tenant(desk: Desk, request: pytest.FixtureRequest) -> AsyncIterator[Tenant]:
    async with await AsyncConnection.connect(desk.owner_url, autocommit=True) as connection:
        yield Tenant(desk, Rows(connection, tenant=request.node.name[:100]))


def hold(**scope: Any) -> ledger_pb2.HoldPublicationsRequest:
    given = {"request_id": "request-1", "reason": REASON, **scope}
    return ledger_pb2.HoldPublicationsRequest(**given)


async def test_a_review_is_published_and_read_back(tenant: Tenant) -> None:
    work = await tenant.work()
    request = review_request(
        work, verdict=publish_pb2.REVIEW_VERDICT_APPROVE, comments=[COMMENT], ordinal=2
    )
    first = await tenant.call("PublishReview", request, "publish")
    publication, [attempt] = first.publication, first.publication.attempts
    pull = work.change_request
    assert pull is not None
    [remote] = tenant.desk.forge.reviews(pull.repo_name, pull.number)
    review = Review(
        verdict=Verdict.APPROVE,
        body="Looks right.",
        comments=(LineComment(path="src/a.py", line=3, body="Why?"),),
    )
    assert (first.duplicate, first.digest_differs) == (False, False)
    assert (publication.key_label, publication.action) == (work.key_label, work.action)
    assert (publication.name, publication.kind, publication.ordinal) == ("review", "review", 2)
    assert publication.target == f"github.com/{pull.repo_id}#7"
    assert (attempt.attempt, attempt.status, attempt.epoch) == (
        *(1, ledger_pb2.ATTEMPT_STATUS_SUCCEEDED, work.epoch),
    )
    assert (attempt.remote_id, attempt.remote_url) == (str(remote.id), remote.html_url)
    assert attempt.digest == content_digest(review.content()).hex()
    assert attempt.claimed_at.ToNanoseconds() < attempt.settled_at.ToNanoseconds()
    assert remote.state == "APPROVED"
    again = await tenant.call("PublishReview", request, "publish")
    assert again.duplicate
    asked = ledger_pb2.GetPublicationRequest(publication_id=publication.publication_id)
    read = await tenant.call("GetPublication", asked, "status_read")
    assert read.publication == again.publication == publication


REQUESTS: dict[str, Message] = {
    "GetPublication": ledger_pb2.GetPublicationRequest(publication_id=1),
    "HoldPublications": hold(whole_tenant=True),
    "ReleaseHold": ledger_pb2.ReleaseHoldRequest(hold_id=1),
    "ResolveHead": heads_pb2.ResolveHeadRequest(forge_instance="github.com", repo_id=1, number=1),
    "PutConnection": connections_pb2.PutConnectionRequest(
        forge_instance="gitlab.test",
        forge=connections_pb2.FORGE_KIND_GITLAB,
        base_url="https://gitlab.test/api/v4",
    ),
    "ListConnections": connections_pb2.ListConnectionsRequest(),
    "DisableConnection": connections_pb2.DisableConnectionRequest(forge_instance="gitlab.test"),
    "RotateSealingKey": connections_pb2.RotateSealingKeyRequest(),
}


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize("rpc", ["PublishReview", *REQUESTS])
async def test_every_call_needs_a_key(tenant: Tenant, rpc: str) -> None:
    request = REQUESTS.get(rpc) or review_request(await tenant.work())
    async with calling(tenant.desk.address, "fp_aaaaaaaa_" + "a" * 43) as stranger:
        with pytest.raises(KeyUnknown):
            await stranger.call(rpc, request)


BAD_REVIEWS: list[tuple[dict[str, Any], str]] = [
    ({"body": ""}, "body"),
    ({"body": "x" * 65_537}, "body"),
    ({"body": "x" * 65_536}, "body"),
    ({"name": ""}, "name"),
    ({"name": "Review"}, "name"),
    ({"ordinal": -1}, "ordinal"),
    ({"verdict": 0}, "verdict"),
    ({"verdict": 9}, "verdict"),
    ({"intent_id": 0}, "intent_id"),
    ({"checkpoint_version": -1}, "checkpoint_version"),
    ({"fence": {"epoch": 0}}, "fence.epoch"),
    ({"fence": {"holder": ""}}, "fence.holder"),
    ({"fence": {"action": "Bot"}}, "fence.action"),
    ({"fence": {"action": "bot:shadow"}}, "fence.action"),
    ({"fence": {"holder": "a\0"}}, "fence.holder"),
    ({"fence": {"key": "a\0"}}, "fence.key"),
    ({"comments": [publish_pb2.ReviewComment(path="a", line=0, body="b")]}, "comments[0].line"),
]


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(("wrong", "field"), BAD_REVIEWS, ids=lambda each: str(each)[:40])
async def test_a_wrong_field_of_a_review_is_named(
    tenant: Tenant, wrong: dict[str, Any], field: str
) -> None:
    request = review_request(await tenant.work(), **wrong)
    refusal = await tenant.refusal("PublishReview", request, "publish")
    assert isinstance(refusal, FieldInvalid)
    assert field in [each[0] for each in refusal.violations]


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("request_of", "field"),
    [
        (("HoldPublications", hold()), "scope"),
        (("HoldPublications", hold(everything=False)), "everything"),
        (("HoldPublications", hold(whole_tenant=True, request_id="")), "request_id"),
        (("HoldPublications", hold(whole_tenant=True, reason="a\0")), "reason"),
        (("ReleaseHold", ledger_pb2.ReleaseHoldRequest()), "hold_id"),
    ],
    ids=str,
)
async def test_a_wrong_field_of_an_operators_call_is_named(
    tenant: Tenant, request_of: tuple[str, Message], field: str
) -> None:
    refusal = await tenant.refusal(*request_of, "operate")
    assert isinstance(refusal, FieldInvalid)
    assert field in [each[0] for each in refusal.violations]


@pytest.mark.guarantee("L3")
async def test_a_replaced_holder_is_told_that_it_lost_its_lease(tenant: Tenant) -> None:
    work = await tenant.work()
    await tenant.rows.takeover(work)
    refusal = await tenant.refusal("PublishReview", review_request(work), "publish")
    assert isinstance(refusal, LeaseLost)
    assert (refusal.key, refusal.epoch) == (work.key, work.epoch)


@pytest.mark.guarantee("P11")
async def test_a_hold_is_placed_stops_a_claim_and_is_lifted(tenant: Tenant) -> None:
    work = await tenant.work()
    pull = work.change_request
    assert pull is not None
    scope = ledger_pb2.ChangeRequestScope(forge_instance="github.com", repo_id=pull.repo_id)
    placed = await tenant.call("HoldPublications", hold(change_request=scope), "operate")
    refusal = await tenant.refusal("PublishReview", review_request(work), "publish")
    assert isinstance(refusal, PublicationsHeld)
    assert (refusal.hold_id, refusal.why) == (placed.hold_id, REASON)
    again = await tenant.call("HoldPublications", hold(change_request=scope), "operate")
    assert again.hold_id == placed.hold_id
    reused = await tenant.refusal("HoldPublications", hold(whole_tenant=True), "operate")
    assert isinstance(reused, RequestIdReused)
    release = ledger_pb2.ReleaseHoldRequest(hold_id=placed.hold_id)
    lifted = await tenant.call("ReleaseHold", release, "operate")
    assert await tenant.call("ReleaseHold", release, "operate") == lifted
    await tenant.call("PublishReview", review_request(work), "publish")


@pytest.mark.guarantee("P11", "X8")
async def test_only_a_key_of_no_tenant_may_hold_everything(tenant: Tenant) -> None:
    everything = hold(everything=True)
    for key in ({}, {"of_tenant": False, "named": "acme"}):
        refusal = await tenant.refusal("HoldPublications", everything, "operate", **key)
        assert isinstance(refusal, ScopeMissing)
        assert "no tenant" in str(refusal)
    placed = await tenant.call("HoldPublications", everything, "operate", of_tenant=False)
    row = await tenant.rows.one("holds", hold_id=placed.hold_id)
    assert [row[name] for name in ("tenant", "action", "repo_id", "number")] == [None] * 4
    release = ledger_pb2.ReleaseHoldRequest(hold_id=placed.hold_id)
    assert isinstance(await tenant.refusal("ReleaseHold", release, "operate"), ResourceNotFound)
    await tenant.call("ReleaseHold", release, "operate", of_tenant=False)


@pytest.mark.guarantee("X8")
async def test_a_key_of_no_tenant_names_the_tenant_it_holds(tenant: Tenant) -> None:
    whole = hold(whole_tenant=True)
    refusal = await tenant.refusal("HoldPublications", whole, "operate", of_tenant=False)
    assert isinstance(refusal, FieldInvalid)
    placed = await tenant.call(
        "HoldPublications", whole, "operate", of_tenant=False, named="someone"
    )
    assert (await tenant.rows.one("holds", hold_id=placed.hold_id))["tenant"] == "someone"
