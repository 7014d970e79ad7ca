"""Gitea's and Forgejo's signatures: bare hex under their own header, and no other header."""

import pytest

from services.ingress.endpoints.model import ForgeKind, Proof
from services.ingress.operations import READERS
from services.ingress.webhooks import forgejo, gitea
from services.ingress.webhooks.door import FORGES
from services.ingress.webhooks.forge import Answer, Forge
from tests.services.ingress.webhooks.checking import is_authentic_to
from tests.signing import bare_signature, github_signature

SECRET, OLD_SECRET = b"It's a Secret to Everybody", b"yesterday's"
BODY = '{"action":"opened","title":"é"}'.encode()
GOOD = bare_signature(SECRET, BODY)
BOTH = [
    pytest.param(gitea.FORGE, "x-gitea-signature", "x-forgejo-signature", id="gitea"),
    pytest.param(forgejo.FORGE, "x-forgejo-signature", "x-gitea-signature", id="forgejo"),
]


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize(("forge", "own", "other"), BOTH)
def test_its_own_bare_hex_counts_in_either_case(forge: Forge, own: str, other: str) -> None:
    for value in (GOOD, GOOD.upper(), bare_signature(OLD_SECRET, BODY)):
        headers = [(own, value), (other, "0" * 64), ("x-hub-signature-256", "sha256=wrong")]
        assert is_authentic_to(forge, headers, BODY, [SECRET, OLD_SECRET])


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize(("forge", "own", "other"), BOTH)
@pytest.mark.parametrize(
    "value",
    [
        "",
        "sha256=" + GOOD,
        "sha1=" + GOOD,
        GOOD[:40],
        "é" * 64,
        bare_signature(b"another", BODY),
        bare_signature(SECRET, BODY + b"\n"),
        f"{GOOD}, {GOOD}",
    ],
)
def test_a_wrong_one_is_not_saved_by_others_that_are_right(
    forge: Forge, own: str, other: str, value: str
) -> None:
    families = [(other, GOOD), ("x-hub-signature-256", github_signature(SECRET, BODY))]
    families += [("x-gogs-signature", GOOD)]
    assert not is_authentic_to(forge, [(own, value), *families], BODY, [SECRET])
    assert not is_authentic_to(forge, families, BODY, [SECRET])
    assert not is_authentic_to(forge, [(own, GOOD), (own, value)], BODY, [SECRET])


@pytest.mark.parametrize(("forge", "own", "other"), BOTH)
def test_without_a_secret_nothing_is_authentic(forge: Forge, own: str, other: str) -> None:
    assert not is_authentic_to(forge, [(own, bare_signature(b"", BODY))], BODY, [])


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize("forge", FORGES.values(), ids=["-".join(each) for each in FORGES])
def test_each_table_answers_everything(forge: Forge) -> None:
    assert set(forge.statuses) == set(Answer)


def test_every_kind_of_forge_has_its_door_and_its_reader() -> None:
    assert set(ForgeKind) == set(READERS) == {kind for kind, _ in FORGES}
    assert set(Proof) == {proof for _, proof in FORGES}
    assert all((kind, Proof.SIGNATURE) in FORGES for kind in ForgeKind)
