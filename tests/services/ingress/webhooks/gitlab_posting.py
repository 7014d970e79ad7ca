"""Posts GitLab's webhooks to a running ingress, with a token or signed."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from services.ingress.endpoints.model import Endpoint, ForgeKind, Proof
from tests.database_server import DatabaseServer
from tests.services.ingress.gitlab_merges import HOST
from tests.services.ingress.pulls import ENDPOINT
from tests.services.ingress.webhooks.posting import Change, Door, Headers, as_sent, opened
from tests.signing import gitlab_signature

PATH = "/webhooks/gitlab/merges"
KEY = b"k" * 32
TOKEN = "a token, not a signature"
SIGNING_TOKEN = "whsec_" + base64.b64encode(KEY).decode()
MERGE_REQUEST = "Merge Request Hook"


def signature(body: bytes, delivery_id: str, at_s: int) -> dict[str, Change]:
    """The three headers of a signed webhook."""
    made = gitlab_signature(KEY, delivery_id, str(at_s), body)
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": made,
    }


@dataclass(frozen=True)
class GitLab:
    """An endpoint for one of GitLab's two proofs; every post is in order unless changed."""

    proof: str
    door: Door

    def now_s(self) -> int:
        """The database's clock."""
        row = self.door.owner.execute("SELECT extract(epoch FROM clock_timestamp())::bigint")
        [(now_s,)] = row.fetchall()
        return int(now_s)

    def headers(self, body: bytes, delivery_id: str, **changes: Change) -> Headers:
        """What GitLab sends; a change replaces a header, repeats it, or leaves it out."""
        headers: dict[str, Change] = {
            "content-type": "application/json",
            "user-agent": "GitLab/18.10.0",
            "x-gitlab-event": MERGE_REQUEST,
            "x-gitlab-event-uuid": "13792a34-cac6-4fda-95a8-c58e00a3954e",
            "x-gitlab-webhook-uuid": "02affd2d-2cba-4033-917d-ec22d5dc4b38",
            "x-gitlab-instance": f"https://{HOST}",
            "idempotency-key": delivery_id,
        }
        if self.proof == "token":
            headers["x-gitlab-token"] = TOKEN
        else:
            headers |= signature(body, delivery_id, self.now_s())
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        return as_sent(headers)

    def post(self, body: bytes, delivery_id: str, **changes: Change) -> httpx.Response:
        """One webhook and its answer."""
        return self.door.post(body, self.headers(body, delivery_id, **changes), PATH)

    def stored(self, delivery_id: str) -> list[tuple[Any, ...]]:
        """Outcome, reason, body and field of the deliveries of this id, oldest first."""
        return self.door.owner.execute(
            "SELECT outcome, reason, body, projection->>'field' FROM fencepost.deliveries"
            " WHERE delivery_id = %s ORDER BY delivery_seq",
            [delivery_id],
        ).fetchall()


def endpoint(proof: str) -> Endpoint:
    """An endpoint for GitLab."""
    return replace(
        ENDPOINT,
        name="merges",
        forge=ForgeKind.GITLAB,
        forge_instance=HOST,
        proof=Proof(proof),
        secrets=({"token": TOKEN, "signature": SIGNING_TOKEN}[proof].encode(),),
    )


@contextmanager
def gitlab(database_server: DatabaseServer, proof: str) -> Iterator[GitLab]:
    """A running ingress with an endpoint for GitLab, which has an older secret, too."""
    previous = b"whsec_" + base64.b64encode(b"old" * 11)
    of_gitlab = endpoint(proof)
    of_gitlab = replace(of_gitlab, secrets=(*of_gitlab.secrets, previous))
    with opened(database_server, endpoint=of_gitlab) as door:
        yield GitLab(proof, door)
