"""GitHub's envelope: the headers it is in, its signature, and the answers it understands."""

import hashlib
import hmac
from collections.abc import Sequence

from services.ingress.webhooks.forge import Answer, Forge

SIGNATURE = "x-hub-signature-256"
"""The one trusted header; the older X-Hub-Signature, which is SHA-1, counts for nothing (I5)."""


def is_authentic(values: Sequence[str], body: bytes, secrets: Sequence[bytes]) -> bool:
    """Whether the one signature was made over these bytes with a live secret, in constant time."""
    if len(values) != 1:
        return False
    # Header text is Latin-1; as bytes any character may be compared.
    given = values[0].strip().lower().encode()
    matches = [hmac.compare_digest(given, _signature(secret, body)) for secret in secrets]
    return any(matches)


def _signature(secret: bytes, body: bytes) -> bytes:
    return b"sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


FORGE = Forge(
    signature_header=SIGNATURE,
    delivery_header="x-github-delivery",
    event_header="x-github-event",
    is_authentic=is_authentic,
    statuses={
        Answer.ACCEPTED: 202,
        Answer.DUPLICATE: 200,
        Answer.IGNORED: 200,
        Answer.MALFORMED: 400,
        Answer.UNAUTHENTIC: 401,
        Answer.CONFLICT: 409,
        Answer.TOO_LARGE: 413,
        Answer.AWAY: 503,
    },
)
