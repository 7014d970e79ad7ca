"""Bodies of one pull request, made from GitHub's real payload, and what submits them."""

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from services.ingress.endpoints.model import Endpoint, ForgeKind, Proof, Route
from services.ingress.settings import IngressSettings
from services.ingress.submissions import Submission
from tests.services.ingress.registered import KEYRING_TEXT

PAYLOADS = Path(__file__).parents[2] / "payloads" / "github"
SECRET = "it is a test"
TENANT = "acme"
REPO_ID = 186853002
NUMBER = 2
URL = "https://github.com/Codertocat/Hello-World/pull/2"
HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
A, B, C = "a" * 40, "b" * 40, "c" * 40
ENDPOINT = Endpoint(
    name="github",
    tenant=TENANT,
    forge=ForgeKind.GITHUB,
    forge_instance="github.com",
    proof=Proof.SIGNATURE,
    secrets=(SECRET.encode(),),
    routes=(Route(action="container-dispatch", queue="reviews"),),
)
T0 = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def real(action: str) -> bytes:
    """A recorded payload, byte for byte."""
    return (PAYLOADS / f"pull_request.{action}.json").read_bytes()


@cache
def _opened() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(real("opened"))
    return document


def pull(
    action: str = "opened",
    *,
    head_sha: str = A,
    at: int = 0,
    before: str | None = None,
    draft: bool = False,
    number: int = NUMBER,
    title: str = "Widgets",
) -> bytes:
    """An event of a pull request, dated `at` seconds after T0."""
    document = copy.deepcopy(_opened())
    document["action"] = action
    document["number"] = number
    if before is not None:
        document |= {"before": before, "after": head_sha}
    document["pull_request"] |= {
        "number": number,
        "state": "closed" if action == "closed" else "open",
        "draft": draft,
        "title": title,
        "updated_at": (T0 + timedelta(seconds=at)).isoformat(),
    }
    document["pull_request"]["head"]["sha"] = head_sha
    return json.dumps(document).encode()


def settings_of(database_url: str, **changes: Any) -> IngressSettings:
    """An ingress that waits long enough to be watched."""
    values = {
        "sealing_keys": SecretStr(KEYRING_TEXT),
        "database_lock_timeout_ms": 20_000,
        "database_statement_timeout_ms": 20_000,
        **changes,
    }
    return IngressSettings(database_url=SecretStr(database_url), **values)


def endpoint_of(settings: IngressSettings) -> Endpoint:
    """GitHub's endpoint as an ingress of these settings serves it."""
    return replace(ENDPOINT, body_limit_bytes=settings.body_limit_bytes)


def submission(endpoint: Endpoint, delivery_id: str, body: bytes, **changes: Any) -> Submission:
    """A delivery of a pull_request event."""
    return Submission(
        **{
            "endpoint": endpoint,
            "delivery_id": delivery_id,
            "event": "pull_request",
            "content_type": "application/json",
            "body": body,
            "traceparent": "",
            **changes,
        }
    )
