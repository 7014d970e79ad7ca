"""API credentials, `fp_<id>_<secret>`: made, taken apart, and what is stored of them (X2).

The id is public and names the row; of the secret only its SHA-256 is stored, which is enough for
256 random bits.
"""

import hashlib
import re
import secrets
import string
from dataclasses import dataclass, field

KEY_ID_CHARACTERS = 16
SECRET_CHARACTERS = 43

_KEY_ID_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits
_FORM = re.compile(r"fp_([a-z0-9]{8,40})_([A-Za-z0-9]{32,128})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A new credential; `text` is what its holder sends, `secret_sha256` what is stored."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The whole credential."""
        return f"fp_{self.key_id}_{self.secret}"

    @property
    def secret_sha256(self) -> bytes:
        """Digest of the secret, 32 bytes."""
        return secret_digest(self.secret)


def new_credential() -> Credential:
    """A credential nobody else has."""
    return Credential(
        key_id=_random(_KEY_ID_ALPHABET, KEY_ID_CHARACTERS),
        secret=_random(_SECRET_ALPHABET, SECRET_CHARACTERS),
    )


def parse(text: str) -> tuple[str, str] | None:
    """Key id and secret of a credential, or None when it does not have the form of one."""
    match = _FORM.fullmatch(text)
    return (match[1], match[2]) if match else None


def secret_digest(secret: str) -> bytes:
    """SHA-256 of the secret; compare it with `hmac.compare_digest`."""
    return hashlib.sha256(secret.encode()).digest()


def _random(alphabet: str, characters: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(characters))
