"""Claims, settlements and reads on a real database, as the publisher's role."""

import hashlib
from typing import Any

import pytest
from fencepost.errors import (
    CheckpointRequired,
    FencepostError,
    FieldInvalid,
    LeaseLost,
    PublicationBlocked,
    PublicationsHeld,
    ReconciliationRequired,
    ResourceNotFound,
)

from services.publisher.ledger import operations as ledger
from services.publisher.ledger.operations import Claim
from services.publisher.ledger.rules import content_digest
from services.publisher.model import Published, Refused, Review, Succeeded, Uncertain, Verdict
from shared.database import Database
from shared.schema.states import AttemptStatus
from tests.rows import Rows, Work
from tests.services.publisher.commands import (
    CLAIM_TOKEN,
    REVIEW,
    TRACEPARENT,
    claim,
    claimed,
    review_of,
)

DIGEST = content_digest(REVIEW.content())
SUCCESS = Succeeded(remote_id="80", remote_url="https://github.com/r/80", result=b'{"id": 80}')


async def refused(database: Database, rows: Rows, work: Work, **changes: Any) -> FencepostError:
    """The refusal of a claim, which must have written nothing."""
    ledger_before = await _ledger(rows, work)
    with pytest.raises(FencepostError) as refusal:
        await claim(database, review_of(work, **changes))
    assert await _ledger(rows, work) == ledger_before
    return refusal.value


async def _ledger(rows: Rows, work: Work) -> list[object]:
    return [
        await rows.all("publications", tenant=work.tenant, key=work.key),
        await rows.all("publication_attempts", intent_id=work.intent_id),
    ]


@pytest.mark.guarantee("P1", "P2", "P2b")
async def test_a_claim_marks_one_attempt_running_with_the_whole_request(
    database: Database, rows: Rows
) -> None:
    work = await rows.work()
    claim_made = await claimed(database, review_of(work, name="summary", ordinal=3))
    publication = await rows.one("publications", key=work.key)
    pull = work.change_request
    assert pull is not None
    assert publication == {
        "publication_id": claim_made.slot.publication_id,
        **{name: getattr(work, name) for name in ("tenant", "key", "key_label", "action")},
        "generation": 1,
        "name": "summary",
        "kind": "review",
        "target": f"github.com/{pull.repo_id}#7",
        "ordinal": 3,
        "intent_id": work.intent_id,
        "created_at": publication["created_at"],
    }
    attempt = await rows.one("publication_attempts", intent_id=work.intent_id)
    assert attempt == {
        **attempt,
        "tenant": work.tenant,
        "publication_id": publication["publication_id"],
        "attempt": 1,
        "status": "running",
        "holder": "holder-1",
        "epoch": 1,
        "claim_token": CLAIM_TOKEN,
        "checkpoint_version": 1,
        "digest": DIGEST,
        "request": f"POST /{pull.repo_name}\n\n{claim_made.slot}".encode(),
        "evidence": claim_made.draft.evidence,
        "settled_at": None,
        "traceparent": TRACEPARENT,
    }


@pytest.mark.guarantee("P1")
@pytest.mark.parametrize(("durable", "wanted"), [(1, 0), (1, 2), (7, 8)])
async def test_a_claim_relies_on_a_durable_checkpoint(
    database: Database, rows: Rows, durable: int, wanted: int
) -> None:
    work = await rows.run(await rows.lease(await rows.intent()), version=durable)
    refusal = await refused(database, rows, work, checkpoint_version=wanted)
    assert isinstance(refusal, CheckpointRequired)
    assert (refusal.wanted_version, refusal.latest_version) == (wanted, durable)


@pytest.mark.guarantee("P1")
async def test_a_claim_may_rely_on_an_earlier_checkpoint(database: Database, rows: Rows) -> None:
    work = await rows.run(await rows.lease(await rows.intent()), version=7)
    await claimed(database, review_of(work, checkpoint_version=3))


@pytest.mark.guarantee("P1")
async def test_the_checkpoint_of_another_generation_does_not_count(
    database: Database, rows: Rows
) -> None:
    intent = await rows.intent(await rows.change_request(generation=2))
    await rows.run(intent, version=5, generation=1)
    work = await rows.lease(intent)
    refusal = await refused(database, rows, work, checkpoint_version=1)
    assert isinstance(refusal, CheckpointRequired)
    assert refusal.latest_version == 0


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize(
    "wrong",
    [
        {"holder": "holder-2"},
        {"epoch": 2},
        {"key": "github.com/1#7@0000000000000000000000000000000000000000"},
        {"action": "another-bot"},
    ],
)
async def test_only_the_holder_of_the_lease_may_claim(
    database: Database, rows: Rows, wrong: dict[str, Any]
) -> None:
    refusal = await refused(database, rows, await rows.work(), **wrong)
    assert isinstance(refusal, LeaseLost)


@pytest.mark.guarantee("L3")
@pytest.mark.parametrize("state", ["free", "succeeded", "superseded", "abandoned", "dead"])
async def test_only_a_running_lease_lets_claim(database: Database, rows: Rows, state: str) -> None:
    work = await rows.work()
    await rows.change("leases", {"key": work.key}, state=state, settled_at="2026-01-01T00:00:00Z")
    assert isinstance(await refused(database, rows, work), LeaseLost)


@pytest.mark.guarantee("L3")
async def test_the_lease_must_be_on_the_intent(database: Database, rows: Rows) -> None:
    pull = await rows.change_request()
    other = await rows.intent(pull)
    work = await rows.work(pull)
    refusal = await refused(database, rows, work, intent_id=other.intent_id)
    assert isinstance(refusal, LeaseLost)


@pytest.mark.guarantee("L3")
async def test_a_late_holder_that_nobody_replaced_may_claim(database: Database, rows: Rows) -> None:
    late = await rows.lease(await rows.intent(), claimable_in_ms=-60_000)
    await claimed(database, review_of(await rows.run(late)))


@pytest.mark.guarantee("X8")
async def test_another_tenants_intent_is_not_found(database: Database, rows: Rows) -> None:
    work = await rows.work()
    refusal = await refused(database, rows, work, tenant="other")
    assert isinstance(refusal, ResourceNotFound)
    assert refusal.kind == "intent"


@pytest.mark.guarantee("L6")
async def test_a_shadow_dispatch_never_publishes(database: Database, rows: Rows) -> None:
    work = await rows.work(action="container-dispatch:shadow")
    refusal = await refused(database, rows, work)
    assert isinstance(refusal, FieldInvalid)
    assert refusal.violations[0][0] == "fence.action"


@pytest.mark.guarantee("X4")
async def test_work_without_a_change_request_has_no_place_for_a_review(
    database: Database, rows: Rows
) -> None:
    work = await rows.run(await rows.lease(await rows.bare_intent()))
    refusal = await refused(database, rows, work)
    assert isinstance(refusal, FieldInvalid)
    assert refusal.violations[0][0] == "intent_id"


@pytest.mark.guarantee("P2")
async def test_a_duplicate_of_a_success_returns_what_is_stored(
    database: Database, rows: Rows
) -> None:
    work = await rows.work()
    publication = await rows.publication(work)
    await rows.attempt(publication, status="refused")
    await rows.attempt(publication, attempt=2, digest=DIGEST)
    before = await _ledger(rows, work)
    answer = await claim(database, review_of(work))
    assert isinstance(answer, Published)
    assert (answer.duplicate, answer.digest_differs) == (True, False)
    assert answer.publication.publication_id == publication["publication_id"]
    assert [each.status for each in answer.publication.attempts] == [
        AttemptStatus.REFUSED,
        AttemptStatus.SUCCEEDED,
    ]
    assert answer.publication.attempts[1].remote_id == "80"
    other = Review(verdict=Verdict.APPROVE, body="Looks right.")
    differing = await claim(database, review_of(work, review=other))
    assert isinstance(differing, Published)
    assert (differing.duplicate, differing.digest_differs) == (True, True)
    assert await _ledger(rows, work) == before


@pytest.mark.guarantee("P2", "P6")
@pytest.mark.parametrize("status", ["running", "uncertain"])
async def test_an_attempt_in_doubt_lets_nothing_be_sent(
    database: Database, rows: Rows, status: str
) -> None:
    work = await rows.work()
    publication = await rows.publication(work)
    await rows.attempt(publication, status=status, claimed_at="2020-01-01T00:00:00Z")
    refusal = await refused(database, rows, work)
    assert isinstance(refusal, ReconciliationRequired)
    assert (refusal.publication_id, refusal.status) == (publication["publication_id"], status)


@pytest.mark.guarantee("P2")
async def test_what_was_proven_absent_waits_for_an_operator(database: Database, rows: Rows) -> None:
    work = await rows.work()
    await rows.attempt(await rows.publication(work), status="absent")
    assert isinstance(await refused(database, rows, work), PublicationBlocked)


@pytest.mark.guarantee("P2")
async def test_what_was_refused_may_be_tried_anew(database: Database, rows: Rows) -> None:
    work = await rows.work()
    publication = await rows.publication(work)
    await rows.attempt(publication, status="refused")
    claim_made = await claimed(database, review_of(work))
    assert claim_made.slot.publication_id == publication["publication_id"]
    assert claim_made.slot.attempt == 2


@pytest.mark.guarantee("P2")
async def test_identities_are_told_apart(database: Database, rows: Rows) -> None:
    work = await rows.work()
    shadowed = await rows.publication(work, generation=9)
    named: list[dict[str, Any]] = [
        {},
        {"name": "summary"},
        {"ordinal": 1},
        {"name": "summary", "ordinal": 1},
    ]
    claims = [await claimed(database, review_of(work, **each)) for each in named]
    ids = {each.slot.publication_id for each in claims} | {shadowed["publication_id"]}
    assert len(ids) == 5


HOLDS_THAT_STOP: list[dict[str, Any]] = [
    {},
    {"tenant": "acme"},
    {"action": "container-dispatch"},
    {"tenant": "acme", "action": "container-dispatch"},
    {"forge_instance": "github.com", "repo_id": 4711},
    {"forge_instance": "github.com", "repo_id": 4711, "number": 7},
    {"tenant": "acme", "forge_instance": "github.com", "repo_id": 4711, "number": 7},
]
HOLDS_ELSEWHERE: list[dict[str, Any]] = [
    {"tenant": "other"},
    {"action": "another-bot"},
    {"tenant": "acme", "action": "another-bot"},
    {"forge_instance": "ghe.example.com", "repo_id": 4711},
    {"forge_instance": "github.com", "repo_id": 4712},
    {"forge_instance": "github.com", "repo_id": 4711, "number": 8},
    {"released_by": "ops", "released_at": "2026-01-01T00:00:00Z"},
]


@pytest.mark.guarantee("P11")
@pytest.mark.parametrize("scope", HOLDS_THAT_STOP, ids=str)
async def test_a_hold_stops_the_claims_in_its_scope(
    database: Database, rows: Rows, scope: dict[str, Any]
) -> None:
    work = await rows.work(await rows.change_request(repo_id=4711))
    hold = await rows.hold(reason="bot gone wild", **scope)
    refusal = await refused(database, rows, work)
    assert isinstance(refusal, PublicationsHeld)
    assert (refusal.hold_id, refusal.why) == (hold["hold_id"], "bot gone wild")
    await rows.change(
        "holds", {"hold_id": hold["hold_id"]}, released_by="ops", released_at="2026-01-01T00:00:00Z"
    )
    await claimed(database, review_of(work))


@pytest.mark.guarantee("P11")
@pytest.mark.parametrize("scope", HOLDS_ELSEWHERE, ids=str)
async def test_a_hold_elsewhere_stops_nothing(
    database: Database, rows: Rows, scope: dict[str, Any]
) -> None:
    work = await rows.work(await rows.change_request(repo_id=4711))
    await rows.hold(**scope)
    await claimed(database, review_of(work))


@pytest.mark.guarantee("P11", "P2")
async def test_a_hold_hides_no_success_and_no_doubt(database: Database, rows: Rows) -> None:
    done, doubtful = await rows.work(), await rows.work()
    await rows.attempt(await rows.publication(done))
    await rows.attempt(await rows.publication(doubtful), status="uncertain")
    await rows.hold()
    assert isinstance(await claim(database, review_of(done)), Published)
    assert isinstance(await refused(database, rows, doubtful), ReconciliationRequired)


@pytest.mark.guarantee("P5")
@pytest.mark.parametrize(
    ("outcome", "row"),
    [
        (SUCCESS, {"status": "succeeded", "remote_id": "80", "result": b'{"id": 80}'}),
        (Refused("status 404"), {"status": "refused", "detail": "status 404", "remote_id": None}),
        (Uncertain("reset"), {"status": "uncertain", "detail": "reset", "remote_id": None}),
    ],
)
async def test_what_came_of_it_is_recorded_after_the_lease_changed_hands(
    database: Database,
    rows: Rows,
    outcome: Succeeded | Refused | Uncertain,
    row: dict[str, Any],
) -> None:
    work = await rows.work()
    claim_made = await claimed(database, review_of(work))
    await rows.takeover(work)
    publication = await database.run(lambda tx: ledger.settle(tx, claim_made, outcome))
    attempt = await rows.one("publication_attempts", intent_id=work.intent_id)
    assert attempt == {**attempt, **row, "epoch": 1, "holder": "holder-1"}
    assert attempt["settled_at"] is not None
    assert publication.attempts[0].status is outcome.status


@pytest.mark.guarantee("P5")
async def test_only_the_claimant_records_what_came_of_it(database: Database, rows: Rows) -> None:
    work = await rows.work()
    claim_made = await claimed(database, review_of(work))
    stranger = Claim(**{**vars(claim_made), "claim_token": "guessed"})
    publication = await database.run(lambda tx: ledger.settle(tx, stranger, SUCCESS))
    assert publication.attempts[0].status is AttemptStatus.RUNNING
    assert (await rows.one("publication_attempts", intent_id=work.intent_id))["result"] is None


@pytest.mark.guarantee("P5", "X6")
async def test_what_is_recorded_stays_recorded(database: Database, rows: Rows) -> None:
    work = await rows.work()
    claim_made = await claimed(database, review_of(work))
    await database.run(lambda tx: ledger.settle(tx, claim_made, SUCCESS))
    before = await _ledger(rows, work)
    for outcome in (SUCCESS, Uncertain("late"), Refused("late")):
        publication = await database.run(lambda tx: ledger.settle(tx, claim_made, outcome))  # noqa: B023
        assert publication.attempts[0].status is AttemptStatus.SUCCEEDED
    assert await _ledger(rows, work) == before


@pytest.mark.guarantee("X6")
async def test_a_claim_is_found_by_its_token(database: Database, rows: Rows) -> None:
    claim_made = await claimed(database, review_of(await rows.work()))
    never_made = Claim(**{**vars(claim_made), "claim_token": "rolled-back"})
    assert await database.run(lambda tx: ledger.is_claimed(tx, claim_made))
    assert not await database.run(lambda tx: ledger.is_claimed(tx, never_made))


@pytest.mark.guarantee("X8")
async def test_a_publication_is_read_by_its_own_tenant(database: Database, rows: Rows) -> None:
    work = await rows.work()
    publication = await rows.publication(work)
    await rows.attempt(publication, status="refused", detail="status 404")
    await rows.attempt(publication, attempt=2, digest=hashlib.sha256(b"x").digest())
    publication_id = publication["publication_id"]
    for tenant in ("acme", None):
        found = await database.read(
            lambda tx: ledger.read(tx, tenant=tenant, publication_id=publication_id)  # noqa: B023
        )
        assert (found.key_label, found.target) == (work.key_label, publication["target"])
        assert [each.detail for each in found.attempts] == ["status 404", ""]
    for tenant, sought in (("other", publication_id), ("acme", publication_id + 1)):
        with pytest.raises(ResourceNotFound, match="publication"):
            await database.read(
                lambda tx: ledger.read(tx, tenant=tenant, publication_id=sought)  # noqa: B023
            )
