"""Sealing: what opens, what does not, and which of two errors says why."""

from dataclasses import replace

import pytest
from fencepost.errors import SealingKeyUnknown, SecretTampered

from shared.sealing import (
    NONCE_BYTES,
    Keyring,
    KeyringError,
    Sealed,
    SealedFor,
    new_key_line,
)

SECRET = b"whsec_a canary of its own"
HERE = SealedFor(purpose="webhook secret", tenant="acme", owner="github", version=1)


def keyring(*ids: str) -> Keyring:
    return Keyring.parse("\n".join(map(new_key_line, ids)))


@pytest.mark.guarantee("K1")
def test_what_was_sealed_opens_and_shows_nothing() -> None:
    ring = keyring("k1")
    sealed = ring.seal(SECRET, HERE)
    assert ring.unseal(sealed, HERE) == SECRET
    assert sealed.key_id == "k1"
    assert SECRET not in sealed.wrapped_key + sealed.ciphertext
    assert sealed.ciphertext.hex() not in repr(sealed)


@pytest.mark.guarantee("K1")
@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(HERE, purpose="forge token"),
        replace(HERE, tenant="other"),
        replace(HERE, owner="gitlab"),
        replace(HERE, version=2),
        replace(HERE, tenant="acm", owner="egithub"),
    ],
)
def test_a_row_copied_elsewhere_does_not_open(elsewhere: SealedFor) -> None:
    ring = keyring("k1")
    sealed = ring.seal(SECRET, HERE)
    with pytest.raises(SecretTampered, match="is not what was sealed there"):
        ring.unseal(sealed, elsewhere)
    with pytest.raises(SecretTampered):
        ring.rewrap(sealed, elsewhere)


@pytest.mark.guarantee("K1")
@pytest.mark.parametrize("part", ["wrapped_key", "ciphertext"])
def test_no_byte_may_change_and_none_may_be_missing(part: str) -> None:
    ring = keyring("k1")
    sealed = ring.seal(SECRET, HERE)
    good: bytes = getattr(sealed, part)
    flipped = [good[:n] + bytes([good[n] ^ 1]) + good[n + 1 :] for n in range(len(good))]
    for bad in (*flipped, b"", good[:NONCE_BYTES], good[:-1], good + b"\0"):
        changed = {"wrapped_key": sealed.wrapped_key, "ciphertext": sealed.ciphertext, part: bad}
        with pytest.raises(SecretTampered):
            ring.unseal(Sealed(key_id=sealed.key_id, **changed), HERE)


@pytest.mark.guarantee("K1")
def test_a_data_key_of_another_secret_opens_nothing() -> None:
    ring = keyring("k1")
    one, two = ring.seal(SECRET, HERE), ring.seal(SECRET, HERE)
    with pytest.raises(SecretTampered):
        ring.unseal(replace(one, wrapped_key=two.wrapped_key), HERE)


@pytest.mark.guarantee("K1")
def test_a_key_that_is_not_there_is_told_from_a_changed_secret() -> None:
    sealed = keyring("k1").seal(SECRET, HERE)
    with pytest.raises(SealingKeyUnknown) as unknown:
        keyring("k2").unseal(sealed, HERE)
    assert unknown.value.key_id == "k1"
    with pytest.raises(SealingKeyUnknown):
        keyring("k2").rewrap(sealed, HERE)
    with pytest.raises(SecretTampered):
        keyring("k1").unseal(sealed, HERE)


@pytest.mark.guarantee("K1")
def test_a_row_that_names_another_key_of_the_ring_does_not_open() -> None:
    ring = keyring("k1", "k2")
    with pytest.raises(SecretTampered):
        ring.unseal(replace(ring.seal(SECRET, HERE), key_id="k2"), HERE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "1 to 32 lines"),
        ("\n".join(new_key_line(f"k{n}") for n in range(33)), "1 to 32 lines"),
        ("k1", "line 1 must be id:key"),
        (f"{new_key_line('k1')}\nk2:c2hvcnQ=", "line 2 must be id:key"),
        ("k1:not base64!", "line 1 must be id:key"),
        (new_key_line("K 1"), "line 1 must begin with a key id"),
        (f"{new_key_line('k1')}\n{new_key_line('k1')}", "names a key id twice"),
    ],
    # The keys are random, and every process of a run must call the cases the same.
    ids=["none", "many", "no key", "short key", "no base64", "no key id", "twice"],
)
def test_a_text_that_is_no_keyring_is_told_without_its_keys(text: str, sentence: str) -> None:
    with pytest.raises(KeyringError, match=sentence) as refused:
        Keyring.parse(text)
    keys = [line.partition(":")[2] for line in text.splitlines()]
    assert not [key for key in keys if key and key in str(refused.value)]


def test_empty_lines_and_spaces_around_do_not_matter() -> None:
    ring = Keyring.parse(f"\n  {new_key_line('k2')}\r\n\n{new_key_line('k1')}\n")
    assert ring.key_ids == ("k2", "k1")
    assert ring.active_id == "k2"
