"""A key is replaced while rows of the old one stand, and every failure says which it is."""

from dataclasses import replace

import pytest
from fencepost.errors import SealingKeyUnknown, SecretTampered

from shared.sealing import NONCE_BYTES, Keyring, Sealed, SealedFor, new_key_line

ROWS = 500
SEALED_MANY = 10_000

OLD, NEW = new_key_line("k1"), new_key_line("k2")


def bound_to(number: int) -> SealedFor:
    return SealedFor(purpose="forge token", tenant="acme", owner=f"connection-{number}", version=1)


def secret(number: int) -> bytes:
    return b"token %d" % number


@pytest.mark.guarantee("K1")
def test_a_key_is_replaced_row_by_row_and_none_is_lost() -> None:
    old, both, new = Keyring.parse(OLD), Keyring.parse(f"{NEW}\n{OLD}"), Keyring.parse(NEW)
    rows: dict[int, Sealed] = {n: old.seal(secret(n), bound_to(n)) for n in range(ROWS)}
    assert all(both.unseal(row, bound_to(n)) == secret(n) for n, row in rows.items())

    # It stops half-way, while writes go on, and is begun again from what the rows say.
    for n in range(ROWS // 2):
        rows[n] = both.rewrap(rows[n], bound_to(n))
    rows[ROWS] = both.seal(secret(ROWS), bound_to(ROWS))
    still_old = [n for n, row in rows.items() if row.key_id == "k1"]
    assert still_old == list(range(ROWS // 2, ROWS))

    # Dropped too early, the old key is missed by name, and the rest still opens.
    with pytest.raises(SealingKeyUnknown, match="'k1'"):
        new.unseal(rows[ROWS - 1], bound_to(ROWS - 1))
    assert new.unseal(rows[0], bound_to(0)) == secret(0)

    for n in still_old:
        rows[n] = both.rewrap(rows[n], bound_to(n))
    assert not [n for n, row in rows.items() if row.key_id == "k1"]
    assert all(new.unseal(row, bound_to(n)) == secret(n) for n, row in rows.items())


@pytest.mark.guarantee("K1")
def test_a_key_is_replaced_without_sealing_the_secret_again() -> None:
    row = Keyring.parse(OLD).seal(secret(1), bound_to(1))
    moved = Keyring.parse(f"{NEW}\n{OLD}").rewrap(row, bound_to(1))
    assert moved.ciphertext == row.ciphertext
    assert moved.wrapped_key != row.wrapped_key
    assert moved.key_id == "k2"


@pytest.mark.guarantee("K1")
def test_one_bad_row_is_told_and_others_open() -> None:
    ring = Keyring.parse(OLD)
    rows = [ring.seal(secret(n), bound_to(n)) for n in range(3)]
    rows[1] = replace(rows[1], ciphertext=rows[1].ciphertext[:-1] + b"\0")
    with pytest.raises(SecretTampered, match="connection-1"):
        ring.unseal(rows[1], bound_to(1))
    with pytest.raises(SecretTampered):
        Keyring.parse(NEW.replace("k2:", "k1:")).unseal(rows[0], bound_to(0))
    assert [ring.unseal(rows[n], bound_to(n)) for n in (0, 2)] == [secret(0), secret(2)]


@pytest.mark.guarantee("K1")
def test_no_nonce_comes_twice() -> None:
    ring = Keyring.parse(OLD)
    rows = [ring.seal(b"the same", bound_to(1)) for _ in range(SEALED_MANY)]
    nonces = [part[:NONCE_BYTES] for row in rows for part in (row.wrapped_key, row.ciphertext)]
    assert len(set(nonces)) == 2 * SEALED_MANY
