"""Claims of a publication against each other, a takeover and a hold: each race is forced."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from fencepost.errors import LeaseLost, PublicationsHeld, ReconciliationRequired
from psycopg import AsyncConnection

from services.publisher.ledger import operations as ledger
from services.publisher.ledger import store
from services.publisher.ledger.operations import Claim
from services.publisher.ledger.store import NewAttempt
from services.publisher.model import Draft, Slot
from shared.database import Database
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.rows import Rows, Work
from tests.services.publisher.commands import (
    CLAIM_TOKEN,
    claim,
    fence_of,
    publisher_settings,
    review_of,
)

LOCK_LEASE = "SELECT 1 FROM fencepost.leases WHERE key = %(key)s FOR UPDATE"
TAKE_OVER = """
    UPDATE fencepost.leases SET holder = 'holder-2', epoch = epoch + 1 WHERE key = %(key)s
"""
RUNNING_ATTEMPT = """
    INSERT INTO fencepost.publication_attempts (tenant, publication_id, attempt, status, holder,
        epoch, intent_id, claim_token, checkpoint_version, digest, request, evidence)
    VALUES (%(tenant)s, %(publication_id)s, %(attempt)s, 'running', 'x', 1, 4711, 'x', 1,
        sha256('x'), '', '')
"""
SAME_IDENTITY = """
    INSERT INTO fencepost.publications (tenant, key, key_label, action, generation, name, kind,
        target, ordinal, intent_id)
    VALUES (%(tenant)s, %(key)s, '', %(action)s, 1, 'review', 'review', %(target)s, 0, 1)
"""
PLACE_HOLD = "INSERT INTO fencepost.holds (reason, placed_by) VALUES ('incident', 'ops')"


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def database(service_url: Callable[[Service], str]) -> AsyncIterator[Database]:
    settings = publisher_settings(service_url("publisher"))
    async with Database.create(settings, application_name="publisher") as database:
        yield database


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


async def attempts(rows: Rows, work: Work) -> list[str]:
    found = await rows.all("publication_attempts", intent_id=work.intent_id)
    return [attempt["status"] for attempt in found]


def new_attempt(work: Work, *, publication_id: int, attempt: int) -> NewAttempt:
    return NewAttempt(
        tenant=work.tenant,
        publication_id=publication_id,
        attempt=attempt,
        holder=work.holder,
        epoch=work.epoch,
        intent_id=work.intent_id,
        claim_token=f"token-{attempt}",
        checkpoint_version=1,
        digest=bytes(32),
        request=b"",
        evidence="",
        traceparent="",
    )


@pytest.mark.guarantee("P2", "L3")
async def test_of_two_claims_of_one_identity_one_gets_to_send(
    database: Database, rows: Rows, blocker: Blocker
) -> None:
    work = await rows.work()
    await blocker.hold(LOCK_LEASE, key=work.key)
    rivals = [claim(database, review_of(work), claim_token=token) for token in ("one", "two")]
    outcomes = await forced(blocker, rivals, on="leases", release=blocker.roll_back)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "Claim",
        "ReconciliationRequired",
    ]
    assert await attempts(rows, work) == ["running"]


@pytest.mark.guarantee("P2")
async def test_of_two_attempts_of_one_identity_under_different_leases_one_is_marked(
    database: Database, rows: Rows, blocker: Blocker
) -> None:
    work = await rows.work()
    publication_id = (await rows.publication(work))["publication_id"]
    identity = {"tenant": work.tenant, "publication_id": publication_id}
    await blocker.hold(RUNNING_ATTEMPT, **identity, attempt=3)

    async def mark(attempt: int) -> int | None:
        new = new_attempt(work, publication_id=publication_id, attempt=attempt)
        return await database.run(lambda tx: store.insert_attempt(tx, new))

    rivals = [mark(1), mark(2)]
    outcomes = await forced(blocker, rivals, on="publication_attempts", release=blocker.roll_back)
    assert None in outcomes
    assert {1, 2}.intersection(outcomes)
    assert await attempts(rows, work) == ["running"]


@pytest.mark.guarantee("P2")
async def test_a_claim_that_was_forestalled_reads_the_winner_and_sends_nothing(
    database: Database, rows: Rows, blocker: Blocker
) -> None:
    work = await rows.work()
    publication_id = (await rows.publication(work))["publication_id"]
    identity = {"tenant": work.tenant, "publication_id": publication_id}
    await blocker.hold(RUNNING_ATTEMPT, **identity, attempt=1)
    [outcome] = await forced(
        blocker,
        [claim(database, review_of(work))],
        on="publication_attempts",
        release=blocker.commit,
    )
    assert isinstance(outcome, ReconciliationRequired)
    assert outcome.status == "running"
    assert await attempts(rows, work) == []


@pytest.mark.guarantee("L3")
async def test_a_takeover_that_commits_while_a_claim_waits_takes_its_right(
    database: Database, rows: Rows, blocker: Blocker
) -> None:
    work = await rows.work()
    await blocker.hold(TAKE_OVER, key=work.key)
    [outcome] = await forced(
        blocker, [claim(database, review_of(work))], on="leases", release=blocker.commit
    )
    assert isinstance(outcome, LeaseLost)
    assert await rows.all("publications", key=work.key) == []
    assert await attempts(rows, work) == []


@pytest.mark.guarantee("L3", "P2b")
async def test_a_takeover_waits_until_the_claim_is_committed(
    database: Database, rows: Rows, blocker: Blocker
) -> None:
    work = await rows.work()
    pull = work.change_request
    assert pull is not None
    await blocker.hold(
        SAME_IDENTITY,
        tenant=work.tenant,
        key=work.key,
        action=work.action,
        target=f"github.com/{pull.repo_id}#7",
    )
    claiming = asyncio.create_task(claim(database, review_of(work)))
    await blocker.seen_waiting(1, on="publications")
    taking_over = asyncio.create_task(rows.takeover(work))
    await blocker.seen_waiting(2, on="leases")
    await blocker.roll_back()
    await taking_over
    assert isinstance(await claiming, Claim)
    assert (await rows.one("leases", key=work.key))["epoch"] == 2
    assert await attempts(rows, work) == ["running"]


@pytest.mark.guarantee("P11")
async def test_a_hold_that_commits_while_a_claim_waits_stops_it(
    database: Database, rows: Rows, blocker: Blocker
) -> None:
    work = await rows.work()
    await blocker.hold(LOCK_LEASE, key=work.key)
    await blocker.hold(PLACE_HOLD)
    [outcome] = await forced(
        blocker, [claim(database, review_of(work))], on="leases", release=blocker.commit
    )
    assert isinstance(outcome, PublicationsHeld)
    assert outcome.why == "incident"
    assert await attempts(rows, work) == []


@pytest.mark.guarantee("X7")
async def test_a_claim_locks_the_change_request_before_the_lease(
    database: Database, rows: Rows, blocker: Blocker
) -> None:
    work = await rows.work()
    pull = work.change_request
    assert pull is not None
    await blocker.hold(
        "SELECT 1 FROM fencepost.change_requests WHERE repo_id = %(repo_id)s FOR UPDATE",
        repo_id=pull.repo_id,
    )
    claiming = asyncio.create_task(claim(database, review_of(work)))
    [waiter] = await blocker.seen_waiting(1, on="change_requests")
    assert "leases" not in waiter.touched
    await blocker.hold(LOCK_LEASE, key=work.key)
    await blocker.roll_back()
    assert isinstance(await claiming, Claim)


@pytest.mark.guarantee("X6")
@pytest.mark.parametrize("stands", [True, False])
async def test_whether_a_claim_stands_is_said_once_its_transaction_has_ended(
    database: Database, rows: Rows, blocker: Blocker, stands: bool
) -> None:
    work = await rows.work()
    publication_id = (await rows.publication(work))["publication_id"]
    await blocker.hold(
        RUNNING_ATTEMPT, tenant=work.tenant, publication_id=publication_id, attempt=9
    )
    claiming = asyncio.create_task(claim(database, review_of(work)))
    await blocker.seen_waiting(1, on="publication_attempts")
    sought = Claim(
        fence=fence_of(work),
        slot=Slot(key=work.key, publication_id=publication_id, attempt=1),
        draft=Draft("POST", "/", b"", evidence=""),
        claim_token=CLAIM_TOKEN,
    )
    asking = asyncio.create_task(database.run(lambda tx: ledger.is_claimed(tx, sought)))
    await blocker.seen_waiting(2, on="leases")
    await (blocker.roll_back() if stands else blocker.commit())
    assert await asking is stands
    [ended] = await asyncio.gather(claiming, return_exceptions=True)
    assert isinstance(ended, Claim if stands else ReconciliationRequired)
