"""Envelope encryption of stored secrets (K1): AES-256-GCM under a data key of each secret's own.

The data key is wrapped by a key-encryption key that the row names. What a secret is for, whose it
is and its version are authenticated with it, so that a row copied elsewhere does not open. A
keyring may hold many keys: the first is active and seals, the others only open. To replace a key,
put a new one first, `rewrap` every row that the old one still wraps, then take the old one out.
"""

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fencepost.errors import SealingKeyUnknown, SecretTampered
from pydantic import AfterValidator, SecretStr

from shared.environment import OWN

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_ID_BYTES = 4
KEYS_MAX = 32

_KEY_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class SealedFor:
    """What a sealed secret is bound to: its purpose, its tenant, who it belongs to, its version."""

    purpose: str
    tenant: str
    owner: str
    version: int


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """A sealed secret as it is stored; each part is a nonce of its own and what it sealed."""

    key_id: str
    wrapped_key: bytes = field(repr=False)
    ciphertext: bytes = field(repr=False)


class KeyringError(ValueError):
    """The text makes no keyring; the sentence tells no key."""


class Keyring:
    """Key-encryption keys by their ids; the first is active."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = MappingProxyType(dict(keys))
        self.active_id = next(iter(self._keys))

    @classmethod
    def parse(cls, text: str) -> Self:
        """From lines of `id:key`, the key 32 bytes in base64; raises KeyringError."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        keys = dict(_read_line(number, line) for number, line in enumerate(lines, 1))
        if len(keys) != len(lines):
            raise KeyringError("names a key id twice")
        if not 1 <= len(keys) <= KEYS_MAX:
            raise KeyringError(f"must hold 1 to {KEYS_MAX} lines")
        return cls(keys)

    @property
    def key_ids(self) -> Sequence[str]:
        """Every id that this keyring opens, the active one first."""
        return tuple(self._keys)

    def seal(self, secret: bytes, bound_to: SealedFor) -> Sealed:
        """Seals under a new data key, which the active key wraps."""
        data_key = AESGCM.generate_key(bit_length=8 * KEY_BYTES)
        return Sealed(
            key_id=self.active_id,
            wrapped_key=self._wrap(data_key, bound_to),
            ciphertext=_encrypt(data_key, secret, _bound("secret", "", bound_to)),
        )

    def unseal(self, sealed: Sealed, bound_to: SealedFor) -> bytes:
        """The secret; raises SealingKeyUnknown, or SecretTampered where any part was changed."""
        data_key = self._unwrap(sealed, bound_to)
        return _decrypt(data_key, sealed.ciphertext, _bound("secret", "", bound_to), bound_to)

    def rewrap(self, sealed: Sealed, bound_to: SealedFor) -> Sealed:
        """The same secret with its data key under the active key; raises as `unseal` does.

        The secret itself is neither opened nor sealed again.
        """
        data_key = self._unwrap(sealed, bound_to)
        return Sealed(
            key_id=self.active_id,
            wrapped_key=self._wrap(data_key, bound_to),
            ciphertext=sealed.ciphertext,
        )

    def _wrap(self, data_key: bytes, bound_to: SealedFor) -> bytes:
        bound = _bound("data key", self.active_id, bound_to)
        return _encrypt(self._keys[self.active_id], data_key, bound)

    def _unwrap(self, sealed: Sealed, bound_to: SealedFor) -> bytes:
        key = self._keys.get(sealed.key_id)
        if key is None:
            raise SealingKeyUnknown(key_id=sealed.key_id)
        bound = _bound("data key", sealed.key_id, bound_to)
        return _decrypt(key, sealed.wrapped_key, bound, bound_to)


def _keyring_text(value: SecretStr) -> SecretStr:
    Keyring.parse(value.get_secret_value())
    return value


SealingKeys = Annotated[SecretStr, AfterValidator(_keyring_text), OWN]
"""A setting that holds the text of a keyring."""


def new_key_line(key_id: str | None = None) -> str:
    """A line for a keyring, with a new random key; its id is random unless given."""
    key_id = key_id or f"k-{os.urandom(KEY_ID_BYTES).hex()}"
    return f"{key_id}:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}"


def _read_line(number: int, line: str) -> tuple[str, bytes]:
    key_id, _, encoded = line.partition(":")
    if not _KEY_ID.fullmatch(key_id):
        raise KeyringError(f"line {number} must begin with a key id of a-z, 0-9, '.', '_', '-'")
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyringError(f"line {number} must be id:key, the key {KEY_BYTES} bytes in base64")
    return key_id, key


def _bound(part: str, key_id: str, bound_to: SealedFor) -> bytes:
    """The associated data, each field with its length, so that no two of them read alike."""
    fields = (
        "fencepost 1",
        part,
        key_id,
        bound_to.purpose,
        bound_to.tenant,
        bound_to.owner,
        str(bound_to.version),
    )
    return b"".join(b"%d:%s" % (len(each), each) for each in map(str.encode, fields))


def _encrypt(key: bytes, plain: bytes, bound: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound)


def _decrypt(key: bytes, sealed: bytes, bound: bytes, bound_to: SealedFor) -> bytes:
    nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, bound)
    except (InvalidTag, ValueError):
        # A cut nonce or body is a ValueError there; either way these are not the bytes sealed.
        raise SecretTampered(purpose=bound_to.purpose, owner=bound_to.owner) from None
