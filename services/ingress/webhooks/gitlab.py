"""GitLab's envelope: a token, or a signature whose MAC holds an id and a time, as registered (I5).

GitLab switches a hook off that is answered 4xx, so 401 and 404, both before anything is believed,
are the only ones. An authentic hook that is refused is answered 200 once it is recorded (I8).
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from starlette.datastructures import Headers

from services.ingress.signing_tokens import signing_key
from services.ingress.webhooks.forge import TELLING_STATUSES, Answer, Forge

TOKEN = "x-gitlab-token"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
VERSION = b"v1,"
SIGNATURES_MAX = 10

STATUSES: Mapping[Answer, int] = MappingProxyType(
    {
        **TELLING_STATUSES,
        Answer.MALFORMED: 200,
        Answer.CONFLICT: 200,
        Answer.TOO_LARGE: 200,
        Answer.TOO_SLOW: 503,
        Answer.FAULT: 200,
    }
)

_SECONDS = re.compile("[0-9]{1,12}")
_EVENT_END = " Hook"


class TokenCheck:
    """The secret itself in one header; nothing is said of the body."""

    signed_at_s = None

    def __init__(self, headers: Headers, secrets: Sequence[bytes]) -> None:
        self._values = [value.encode("latin-1") for value in headers.getlist(TOKEN)]
        self._secrets = secrets

    def update(self, chunk: bytes) -> None:
        """The token is not made over the body."""

    def passed(self) -> bool:
        """Whether the header stands once and is a live secret, in constant time."""
        if len(self._values) != 1:
            return False
        given = _digest(self._values[0])
        matches = [hmac.compare_digest(given, _digest(secret)) for secret in self._secrets]
        return any(matches)


class SignedCheck:
    """The HMAC-SHA256 of id, time and body in base64, each header once."""

    def __init__(self, headers: Headers, secrets: Sequence[bytes]) -> None:
        values = [headers.getlist(name) for name in (ID, TIMESTAMP, SIGNATURE)]
        message_id, timestamp, given = (each[0] if len(each) == 1 else "" for each in values)
        self.signed_at_s = int(timestamp) if _SECONDS.fullmatch(timestamp) else None
        self._given = given.encode("latin-1").split()[:SIGNATURES_MAX] if message_id else []
        signed = f"{message_id}.{timestamp}.".encode("latin-1")
        keys = [key for secret in secrets if (key := signing_key(secret)) is not None]
        self._macs = [hmac.new(key, signed, hashlib.sha256) for key in keys]

    def update(self, chunk: bytes) -> None:
        """Takes the next bytes of the body."""
        for mac in self._macs:
            mac.update(chunk)

    def passed(self) -> bool:
        """Whether one of the signatures was made with a live secret, in constant time."""
        wanted = [VERSION + base64.b64encode(mac.digest()) for mac in self._macs]
        matches = [hmac.compare_digest(given, each) for given in self._given for each in wanted]
        return self.signed_at_s is not None and any(matches)


def event_named(header: str) -> str:
    """The name of an event as bodies have it: `Merge Request Hook` is `merge_request`."""
    return header.strip().removesuffix(_EVENT_END).replace(" ", "_").lower()


def _digest(secret: bytes) -> bytes:
    """Digests are of one length, so comparing them does not tell how long the secret is."""
    return hashlib.sha256(secret).digest()


BY_TOKEN = Forge(
    proof=f"Send one {TOKEN} header that holds the secret.",
    delivery_header="idempotency-key",
    event_header="x-gitlab-event",
    check=TokenCheck,
    statuses=STATUSES,
    event_named=event_named,
    reads_to_end=True,
    ids_itself=False,
    proves_body=False,
)
BY_SIGNATURE = Forge(
    proof=f"Send {ID}, {TIMESTAMP} and {SIGNATURE} once each, made just now over the raw body with "
    "the signing token.",
    delivery_header=ID,
    event_header="x-gitlab-event",
    check=SignedCheck,
    statuses=STATUSES,
    event_named=event_named,
    reads_to_end=True,
    proves_id=True,
)
