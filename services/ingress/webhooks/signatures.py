"""Signatures over raw bodies, each made anew with every live secret."""

import hashlib
import hmac
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers

from services.ingress.webhooks.forge import Check


class HexSignature:
    """One header that holds the body's HMAC-SHA256 in hex, after a prefix or bare."""

    signed_at_s = None

    def __init__(self, values: Sequence[str], secrets: Sequence[bytes], *, prefix: str) -> None:
        self._values = values
        self._prefix = prefix.encode()
        self._macs = [hmac.new(secret, digestmod=hashlib.sha256) for secret in secrets]

    def update(self, chunk: bytes) -> None:
        """Takes the next bytes of the body."""
        for mac in self._macs:
            mac.update(chunk)

    def passed(self) -> bool:
        """Whether the header stands once and was made over these bytes with a live secret."""
        if len(self._values) != 1:
            return False
        # Header text is Latin-1; as bytes any character may be compared.
        given = self._values[0].strip().lower().encode()
        wanted = [self._prefix + mac.hexdigest().encode() for mac in self._macs]
        matches = [hmac.compare_digest(given, each) for each in wanted]
        return any(matches)


def in_hex(header: str, *, prefix: str = "") -> Callable[[Headers, Sequence[bytes]], Check]:
    """The check of a forge that signs in hex; no other header counts."""
    return lambda headers, secrets: HexSignature(headers.getlist(header), secrets, prefix=prefix)
