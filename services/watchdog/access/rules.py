"""What a key may be given, and the forms of digests and page tokens; no I/O and no clock."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

VALID_FOR_MS_MIN = 1000
VALID_FOR_DAYS_MAX = 36_500
TENANT_CHARACTERS_MAX = 100

_MS_OF_A_DAY = 24 * 60 * 60 * 1000
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def missing_scope(given: Collection[str], own: Collection[str]) -> str | None:
    """The first scope of `given` that the giver's own key lacks; None when it lacks none.

    A stored scope that this version does not know is lacked by everybody.
    """
    return min(set(given) - set(own), default=None)


def life_problem(valid_for_ms: int) -> str | None:
    """What is wrong with the length of a key's life, as the end of a sentence about it."""
    if valid_for_ms < VALID_FOR_MS_MIN:
        return f"must be at least {VALID_FOR_MS_MIN // 1000} s"
    if valid_for_ms > VALID_FOR_DAYS_MAX * _MS_OF_A_DAY:
        return f"must be at most {VALID_FOR_DAYS_MAX} days; leave it out for a key without an end"
    return None


def tenant_problem(tenant: str) -> str | None:
    """What is wrong with a tenant's name, as the end of a sentence about it."""
    if len(tenant) > TENANT_CHARACTERS_MAX:
        return f"must have at most {TENANT_CHARACTERS_MAX} characters"
    if not _TENANT.fullmatch(tenant):
        return "must be letters, digits, '.', '_' and '-', and begin with a letter or digit"
    return None


OPERATE = "operate"
NEED_A_TENANT = frozenset({"work", "publish"})


def useless_without_a_tenant(scopes: Collection[str]) -> str | None:
    """What is wrong with these scopes for a key of no tenant, which could act for nobody."""
    if OPERATE in scopes or not (needing := NEED_A_TENANT.intersection(scopes)):
        return None
    return f"{' and '.join(sorted(needing))} act for one tenant: name the tenant of the new key"


def life_ms(created_at: datetime, ends_at: datetime | None) -> int | None:
    """How long a key was given to live; None: it has no end."""
    if ends_at is None:
        return None
    return round((ends_at - created_at) / timedelta(milliseconds=1))


def request_digest(*values: str | int | Sequence[str] | None) -> bytes:
    """SHA-256 of what a request says, by which a repeat is told from another request."""
    return hashlib.sha256(json.dumps(values).encode("ascii")).digest()


def page_token(created_at: datetime, key_id: str) -> str:
    """Where the next page begins: after this key, opaque to callers."""
    position = f"{(created_at - _EPOCH) // _MICROSECOND} {key_id}"
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def page_position(token: str) -> tuple[datetime, str] | None:
    """The last key before the page; None for a token that was never given out."""
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        position = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        microseconds, separator, key_id = position.partition(" ")
        created_at = _EPOCH + int(microseconds) * _MICROSECOND
    except (ValueError, binascii.Error, OverflowError):
        return None
    # int() also reads what is never written: "1_0", "+1", "01".
    given_out = token == page_token(created_at, key_id) and "\0" not in key_id
    return (created_at, key_id) if separator and given_out else None
