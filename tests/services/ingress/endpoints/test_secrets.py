"""Secrets of endpoints: several live, sealed, moved to another key, and never shown."""

from dataclasses import replace

import pytest
from fencepost.errors import FieldInvalid, SealingKeyUnknown, SecretTampered

from services.ingress.endpoints import secret_operations
from services.ingress.endpoints.sealing_loop import SealingLoop
from services.ingress.endpoints.secret_operations import LIVE_SECRETS_MAX
from shared.metrics import REGISTRY
from shared.sealing import Keyring
from tests.rows import from_now
from tests.services.ingress.endpoints.office import (
    NEW_KEY,
    NEXT,
    OLD_KEY,
    SECRET,
    THIRD,
    Office,
    declared,
)

BOTH = Keyring.parse(f"{NEW_KEY}\n{OLD_KEY}")
NEW = Keyring.parse(NEW_KEY)


async def live(office: Office, keyring: Keyring | None = None) -> tuple[bytes, ...]:
    """What a replica checks with that has just started."""
    return (await office.endpoints(keyring).of_tenant("acme", "main")).secrets


@pytest.mark.guarantee("I5", "W7")
async def test_the_old_secret_counts_until_its_overlap_ends(office: Office) -> None:
    await office.put()
    rotated = await office.rotate(NEXT)
    assert rotated.rotated
    assert [secret.version for secret in rotated.stored.secrets] == [2, 1]
    assert await live(office) == (NEXT.encode(), SECRET.encode())
    assert (await office.audited())[1:] == [("acme", "RotateEndpointSecret", "endpoint main")]
    await office.rows.change("endpoint_secrets", {"version": 1}, live_until=from_now(-1))
    assert await live(office) == (NEXT.encode(),)


@pytest.mark.guarantee("I5")
async def test_without_an_overlap_the_old_one_ends_at_once(office: Office) -> None:
    await office.put()
    await office.rotate(NEXT, overlap_ms=0)
    assert await live(office) == (NEXT.encode(),)


@pytest.mark.guarantee("I5")
async def test_a_later_rotation_never_lengthens_an_overlap(office: Office) -> None:
    await office.put()
    await office.rotate(NEXT, overlap_ms=60_000)
    first = await office.rows.one("endpoint_secrets", version=1)
    await office.rotate(THIRD, overlap_ms=600_000)
    assert await live(office) == (THIRD.encode(), NEXT.encode(), SECRET.encode())
    assert await office.rows.one("endpoint_secrets", version=1) == first


async def test_the_newest_secret_again_changes_nothing(office: Office) -> None:
    await office.put()
    await office.rotate(NEXT)
    before = await office.rows.all("endpoint_secrets")
    again = await office.rotate(NEXT, overlap_ms=0)
    assert not again.rotated
    assert await office.rows.all("endpoint_secrets") == before
    assert len(await office.audited()) == 2


async def test_an_older_secret_is_no_new_one_and_there_are_not_too_many(office: Office) -> None:
    await office.put()
    for number in range(LIVE_SECRETS_MAX - 1):
        await office.rotate(f"a secret with number {number}")
    with pytest.raises(FieldInvalid, match="older one"):
        await office.rotate(SECRET)
    with pytest.raises(FieldInvalid, match="count at once"):
        await office.rotate(NEXT)
    assert len(await live(office)) == LIVE_SECRETS_MAX
    await office.rotate(NEXT, overlap_ms=0)
    assert await live(office) == (NEXT.encode(),)


@pytest.mark.guarantee("K1")
async def test_secrets_come_under_the_new_key_and_the_old_one_is_seen_to_be_free(
    office: Office,
) -> None:
    await office.put()
    await office.rotate(NEXT)
    await office.put(declared(name="second"))
    await office.rows.change(
        "endpoint_secrets", {"version": 1, "endpoint": "second"}, wrapped_key=bytes(60)
    )
    loop = SealingLoop(office.database, BOTH)
    await loop.tick()
    keys = {
        (row["endpoint"], row["version"]): row["sealing_key_id"]
        for row in await office.rows.all("endpoint_secrets")
    }
    assert keys == {("main", 1): "k2", ("main", 2): "k2", ("second", 1): "k1"}
    assert REGISTRY.get_sample_value("sealed_secrets", {"sealing_key_id": "k1"}) == 1
    assert REGISTRY.get_sample_value("sealed_secrets", {"sealing_key_id": "k2"}) == 2
    assert await live(office, NEW) == (NEXT.encode(), SECRET.encode())


@pytest.mark.guarantee("K1")
async def test_all_steps_together_miss_no_secret(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_operations, "REWRAPPED_AT_ONCE", 2)
    for number in range(5):
        await office.put(declared(name=f"e{number}"), tenant=f"t{number % 2}")
    await SealingLoop(office.database, BOTH).tick()
    assert {row["sealing_key_id"] for row in await office.rows.all("endpoint_secrets")} == {"k2"}


@pytest.mark.guarantee("K1", "K2")
async def test_what_counts_no_more_is_forgotten(office: Office) -> None:
    await office.put()
    await office.rotate(NEXT, overlap_ms=0)
    await SealingLoop(office.database, office.keyring).tick()
    assert [row["version"] for row in await office.rows.all("endpoint_secrets")] == [2]


@pytest.mark.guarantee("K1")
async def test_a_missing_key_and_a_changed_secret_are_told_apart_and_hurt_no_neighbour(
    office: Office,
) -> None:
    await office.put()
    await office.put(declared(name="second"), secret=NEXT)
    moved = replace(office, keyring=BOTH)
    await moved.put(declared(name="third"), secret=THIRD)
    await office.rows.change("endpoint_secrets", {"endpoint": "second"}, ciphertext=b"changed")

    with_both = office.endpoints(BOTH)
    with pytest.raises(SecretTampered):
        await with_both.of_forge("github", "second")
    assert (await with_both.of_forge("github", "main")).secrets == (SECRET.encode(),)
    with_new = office.endpoints(NEW)
    with pytest.raises(SealingKeyUnknown, match="'k1'"):
        await with_new.of_forge("github", "main")
    assert (await with_new.of_forge("github", "third")).secrets == (THIRD.encode(),)


@pytest.mark.guarantee("K1")
async def test_a_secret_that_does_not_open_can_be_set_anew(office: Office) -> None:
    await office.put()
    lost = replace(office, keyring=NEW)
    with pytest.raises(SealingKeyUnknown):
        await lost.put(declared(bot_ids=frozenset({7})))
    await lost.rotate(NEXT)
    assert await live(office, NEW) == (NEXT.encode(),)
