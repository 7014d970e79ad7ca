"""Gitea and Forgejo send several header families: the registration decides which one counts."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.database_server import DatabaseServer
from tests.services.ingress.gitea_pulls import HOST, endpoint, gitea_pull
from tests.services.ingress.pulls import SECRET
from tests.services.ingress.webhooks.posting import Change, Door, Headers, as_sent, opened
from tests.signing import bare_signature, github_signature

FAMILIES = ("x-github", "x-gogs", "x-gitea", "x-forgejo")


@dataclass(frozen=True)
class Place:
    """A running endpoint of one kind of forge."""

    kind: str
    door: Door

    def headers(self, body: bytes, delivery_id: str, **changes: Change) -> Headers:
        """All four families at once; of signatures the registered kind's own, unless changed."""
        headers: dict[str, Change] = {"content-type": "application/json"}
        for family in FAMILIES:
            headers |= {f"{family}-event": "pull_request", f"{family}-delivery": delivery_id}
            headers[f"{family}-event-type"] = "pull_request_sync"
        headers[f"x-{self.kind}-signature"] = bare_signature(SECRET.encode(), body)
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        return as_sent(headers)

    def post(self, body: bytes, delivery_id: str, **changes: Change) -> tuple[int, str]:
        """Status and reason of the answer."""
        headers = self.headers(body, delivery_id, **changes)
        response = self.door.post(body, headers, f"/webhooks/{self.kind}/{self.kind}")
        return response.status_code, response.json()["reason"]


@pytest.fixture(scope="module", params=["gitea", "forgejo"])
def place(request: pytest.FixtureRequest, database_server: DatabaseServer) -> Iterator[Place]:
    kind = str(request.param)
    with opened(database_server, endpoint=endpoint(kind)) as door:
        yield Place(kind, door)


@pytest.mark.guarantee("I5")
def test_the_native_signature_is_enough(place: Place) -> None:
    body = gitea_pull(head_sha="1" * 40, at=1)
    assert place.post(body, "native") == (202, "")
    [row] = place.door.owner.execute(
        "SELECT forge, forge_instance, event, event_action, body, projection->>'head_sha'"
        " FROM fencepost.deliveries WHERE delivery_id = 'native'"
    ).fetchall()
    assert row == (place.kind, HOST, "pull_request", "opened", body, "1" * 40)


def test_hex_in_upper_case_is_the_same_signature(place: Place) -> None:
    body = gitea_pull("synchronized", head_sha="2" * 40, at=2)
    signature = bare_signature(SECRET.encode(), body).upper()
    changes = {f"x-{place.kind}-signature": signature}
    assert place.post(body, "upper", **changes) == (202, "")


def test_a_wrong_signature_of_githubs_changes_nothing(place: Place) -> None:
    body = gitea_pull("synchronized", head_sha="3" * 40, at=3)
    wrong = github_signature(b"another", body)
    assert place.post(body, "hub", x_hub_signature_256=wrong) == (202, "")


BODY = gitea_pull(head_sha="4" * 40, at=4)
RIGHT = bare_signature(SECRET.encode(), BODY)


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize(
    "native",
    [
        None,
        "",
        "sha256=" + RIGHT,
        "0" * 64,
        ("é" * 64).encode("latin-1"),
        "é".encode() * 32,
        [RIGHT.encode(), b"0" * 64],
    ],
    ids=["none", "empty", "prefixed", "wrong", "Latin-1", "UTF-8", "doubled"],
)
def test_a_wrong_native_signature_is_refused_though_all_others_are_right(
    place: Place, native: Change
) -> None:
    written = place.door.written()
    others: dict[str, Change] = {
        "x-hub-signature-256": github_signature(SECRET.encode(), BODY),
        "x-gitea-signature": RIGHT,
        "x-forgejo-signature": RIGHT,
        "x-gogs-signature": RIGHT,
        f"x-{place.kind}-signature": native,
    }
    assert place.post(BODY, "wrong", **others) == (401, "SIGNATURE_INVALID")
    assert place.door.written() == written


def test_a_signature_of_sha1_alone_is_refused(place: Place) -> None:
    native = {f"x-{place.kind}-signature": None, "x-hub-signature": "sha1=" + "0" * 40}
    assert place.post(BODY, "sha1", **native) == (401, "SIGNATURE_INVALID")


def test_it_is_not_to_be_had_under_githubs_address(place: Place) -> None:
    headers = place.headers(
        BODY, "github", x_hub_signature_256=github_signature(SECRET.encode(), BODY)
    )
    response = place.door.post(BODY, headers, f"/webhooks/github/{place.kind}")
    assert response.status_code == 404
