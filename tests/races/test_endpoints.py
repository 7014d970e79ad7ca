"""Two declare one new endpoint, or rotate its secret, at once: one comes after the other."""

from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from services.ingress.endpoints.operations import PutOutcome, RotateOutcome
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.services.ingress.endpoints.office import (
    NEXT,
    SECRET,
    THIRD,
    Office,
    declared,
    opened,
)
from tests.services.ingress.pulls import settings_of

TAKEN = """
    INSERT INTO fencepost.endpoints (
        tenant, name, forge, forge_instance, proof, routes, bot_ids, wanted_events, drafts
    )
    VALUES (
        'acme', 'main', 'github', 'github.com', 'signature', '[{"action": "a", "queue": "q"}]',
        '{}', '{}', 'ignore'
    )
"""


@pytest.fixture
async def office(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Office]:
    async with opened(owner_url, settings_of(service_url("ingress"))) as office:
        yield office


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


def rotated(outcomes: Sequence[RotateOutcome | BaseException]) -> list[bool]:
    """Of each that came through, whether it added a secret."""
    return [each.rotated for each in outcomes if isinstance(each, RotateOutcome)]


@pytest.mark.guarantee("W7")
async def test_of_two_that_make_one_endpoint_one_makes_it_and_the_other_changes_it(
    office: Office, blocker: Blocker
) -> None:
    await blocker.hold(TAKEN)
    contenders = [office.put(), office.put(declared(bot_ids=frozenset({7})))]
    outcomes = await forced(blocker, contenders, on="endpoints", release=blocker.roll_back)
    assert sorted(each.created for each in outcomes if isinstance(each, PutOutcome)) == [
        False,
        True,
    ]
    [secret] = await office.rows.all("endpoint_secrets")
    assert secret["version"] == 1
    entries = await office.rows.all("audit_entries")
    assert sorted(entry["detail"]["created"] for entry in entries) == [False, True]


@pytest.mark.guarantee("I5")
async def test_of_two_rotations_one_comes_after_the_other(office: Office, blocker: Blocker) -> None:
    await office.put()
    await blocker.hold("SELECT 1 FROM fencepost.endpoints FOR UPDATE")
    contenders = [office.rotate(NEXT), office.rotate(THIRD)]
    outcomes = await forced(blocker, contenders, on="endpoints", release=blocker.roll_back)
    assert rotated(outcomes) == [True, True]
    endpoint = await office.endpoints().of_tenant("acme", "main")
    assert set(endpoint.secrets) == {SECRET.encode(), NEXT.encode(), THIRD.encode()}
    secrets = await office.rows.all("endpoint_secrets")
    assert [row["version"] for row in secrets if row["live_until"] is None] == [3]


@pytest.mark.guarantee("I5")
async def test_of_two_that_rotate_to_one_secret_one_changes_nothing(
    office: Office, blocker: Blocker
) -> None:
    await office.put()
    await blocker.hold("SELECT 1 FROM fencepost.endpoints FOR UPDATE")
    contenders = [office.rotate(NEXT), office.rotate(NEXT)]
    outcomes = await forced(blocker, contenders, on="endpoints", release=blocker.roll_back)
    assert sorted(rotated(outcomes)) == [False, True]
    assert len(await office.rows.all("endpoint_secrets")) == 2
