"""A delivery id that is missing, blank, doubled or absurd is refused, and never a shared key."""

import pytest

from tests.cases.stored import bodies, intents
from tests.services.ingress.gitea_pulls import endpoint, gitea_pull
from tests.services.ingress.pulls import SECRET, pull
from tests.services.ingress.registered import store
from tests.services.ingress.webhooks.posting import Change, Door, as_sent, signed
from tests.signing import bare_signature

NONE = {
    "missing": None,
    "empty": "",
    "a blank": "a b",
    "10 KB": "d" * 10_240,
    "doubled": [b"d-1", b"d-2"],
    "doubled, the same": [b"d-1", b"d-1"],
}


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("name", NONE)
def test_what_is_no_id_is_refused_and_keeps_nobody_out(github: Door, name: str) -> None:
    value: Change = NONE[name]
    before = github.written()
    for title in ("one", "two"):
        body = pull(title=f"{name}, {title}")
        answer = github.post(body, signed(body, x_github_delivery=value))
        assert (answer.status_code, answer.json()["field"]) == (400, "x-github-delivery")
    assert github.written() == before | {"deliveries": before["deliveries"] + 2}


@pytest.mark.guarantee("I5")
def test_an_unsigned_request_reserves_no_id(github: Door) -> None:
    body = pull(number=20)
    forged = signed(body, x_github_delivery="wanted", x_hub_signature_256="sha256=" + "0" * 64)
    assert github.post(body, forged).status_code == 401
    assert github.post(body, signed(body, x_github_delivery="wanted")).status_code == 202
    assert bodies(github, "wanted") == [body]


@pytest.mark.guarantee("I1")
def test_one_id_at_two_endpoints_is_two_deliveries(github: Door) -> None:
    delivery_id, before = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", intents(github)
    body, other = pull(number=30), gitea_pull()
    assert github.post(body, signed(body, x_github_delivery=delivery_id)).status_code == 202
    store(github.owner, endpoint("gitea"))
    headers = as_sent(
        {
            "x-gitea-event": "pull_request",
            "x-gitea-delivery": delivery_id,
            "x-gitea-signature": bare_signature(SECRET.encode(), other),
        }
    )
    assert github.post(other, headers, "/webhooks/gitea/gitea").status_code == 202
    assert intents(github) == before + 2
