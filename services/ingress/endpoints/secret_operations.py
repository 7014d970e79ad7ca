"""The secrets of endpoints: sealed when they are stored, opened where they are checked (K1, K2)."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import FieldInvalid, SealingKeyUnknown, SecretTampered

from services.ingress.endpoints import secrets_store as store
from services.ingress.endpoints.model import ForgeKind, Proof
from services.ingress.endpoints.secrets_store import KeyUse, SecretRow
from services.ingress.signing_tokens import signing_key
from shared.database import Transaction
from shared.sealing import Keyring, SealedFor

LIVE_SECRETS_MAX = 5
"""Each is tried on every webhook of its endpoint."""

REWRAPPED_AT_ONCE = 100
PURPOSE = "webhook secret"

Position = tuple[str, str, int]
"""Tenant, endpoint and version of a secret."""

FIRST: Position = ("", "", 0)

NOT_THE_NEWEST = "is not the newest one stored: RotateEndpointSecret lets the old one count on"
USED_BEFORE = "is an older one of this endpoint: choose a new one"
TOO_MANY = f"makes more than {LIVE_SECRETS_MAX} that count at once: let older ones end first"
NO_SIGNING_TOKEN = "must be a signing token of gitlab's: whsec_ and a key in base64"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An endpoint whose row is locked."""

    tenant: str
    endpoint: str


@dataclass(frozen=True, kw_only=True)
class Rewrapped:
    """What a step of `rewrap` met; no next position: it was the last step."""

    tampered: tuple[SecretTampered, ...]
    next_position: Position | None


def check_form(secret: bytes, forge: ForgeKind, proof: Proof) -> None:
    """Raises FieldInvalid for what that forge could not sign with."""
    signs_with_token = (forge, proof) == (ForgeKind.GITLAB, Proof.SIGNATURE)
    if signs_with_token and signing_key(secret) is None:
        raise _invalid(NO_SIGNING_TOKEN)


def unseal(keyring: Keyring, row: SecretRow) -> bytes:
    """The secret; raises SealingKeyUnknown, SecretTampered."""
    return keyring.unseal(row.sealed, _bound_to(row.tenant, row.endpoint, row.version))


async def listed(tx: Transaction, place: Place) -> list[SecretRow]:
    """The endpoint's secrets, newest first."""
    return await store.list_secrets(tx, [(place.tenant, place.endpoint)])


async def add(tx: Transaction, keyring: Keyring, place: Place, secret: bytes, version: int) -> None:
    """Stores the newest secret; the one before was given its end."""
    sealed = keyring.seal(secret, _bound_to(place.tenant, place.endpoint, version))
    await store.insert_secret(
        tx, sealed, tenant=place.tenant, endpoint=place.endpoint, version=version
    )


async def require_newest(
    tx: Transaction, keyring: Keyring, place: Place, secret: bytes | None
) -> bytes:
    """The newest secret; raises FieldInvalid where another one is given."""
    newest = unseal(keyring, (await listed(tx, place))[0])
    if secret is not None and not hmac.compare_digest(secret, newest):
        raise _invalid(NOT_THE_NEWEST)
    return newest


async def succeed(
    tx: Transaction, keyring: Keyring, place: Place, secret: bytes, *, overlap_ms: int
) -> int | None:
    """Stores a next secret and lets the others end; its version. None: it was the newest already.

    Raises FieldInvalid. An older one that cannot be opened stands in nobody's way.
    """
    rows = await listed(tx, place)
    same = [row for row in rows if _is(keyring, row, secret)]
    if same:
        if same[0].version == rows[0].version:
            return None
        raise _invalid(USED_BEFORE)
    if overlap_ms and len(rows) >= LIVE_SECRETS_MAX:
        raise _invalid(TOO_MANY)
    await store.end_secrets(tx, tenant=place.tenant, endpoint=place.endpoint, in_ms=overlap_ms)
    version = rows[0].version + 1
    await add(tx, keyring, place, secret, version)
    return version


async def rewrap(tx: Transaction, keyring: Keyring, after: Position) -> Rewrapped:
    """Puts some secrets of older keys of the ring under the active one, from a position on.

    What was changed stays as it is and is named; its neighbours are not held up by it.
    """
    rows = await store.lock_sealed_under_others(
        tx,
        active_id=keyring.active_id,
        known_ids=keyring.key_ids,
        after=after,
        limit=REWRAPPED_AT_ONCE,
    )
    tampered = []
    for row in rows:
        bound_to = _bound_to(row.tenant, row.endpoint, row.version)
        try:
            sealed = keyring.rewrap(row.sealed, bound_to)
        except SecretTampered as changed:
            tampered.append(changed)
        else:
            await store.rewrap_secret(tx, row, sealed)
    last = rows[-1] if len(rows) == REWRAPPED_AT_ONCE else None
    return Rewrapped(
        tampered=tuple(tampered),
        next_position=(last.tenant, last.endpoint, last.version) if last else None,
    )


async def forget_ended(tx: Transaction) -> int:
    """Deletes the secrets that count no more."""
    return await store.delete_ended_secrets(tx)


async def key_uses(tx: Transaction) -> Sequence[KeyUse]:
    """Each key that still wraps a stored secret."""
    return await store.count_by_key(tx)


def _is(keyring: Keyring, row: SecretRow, secret: bytes) -> bool:
    try:
        return hmac.compare_digest(unseal(keyring, row), secret)
    except (SealingKeyUnknown, SecretTampered):
        return False


def _bound_to(tenant: str, endpoint: str, version: int) -> SealedFor:
    return SealedFor(purpose=PURPOSE, tenant=tenant, owner=endpoint, version=version)


def _invalid(sentence: str) -> FieldInvalid:
    return FieldInvalid(violations=[("secret", sentence)])
