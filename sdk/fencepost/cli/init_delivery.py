"""A test delivery: signed as the forge would sign it, for an event that makes no work."""

import base64
import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from uuid import uuid4

BODY: Final = json.dumps({"zen": "A test delivery of fencepost init."}).encode()
ANSWER_WITHIN_S: Final = 10
ANSWER_BYTES_MAX: Final = 64 * 1024
SIGNING_TOKEN: Final = "whsec_"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the webhook door said; status 0 where nobody answered, with the reason."""

    status: int
    said: dict[str, Any]

    @property
    def is_good(self) -> bool:
        """Whether the secret was believed and the delivery recorded."""
        return self.status in (200, 202)

    @property
    def sentence(self) -> str:
        """The answer for people."""
        what = self.said.get("outcome") or self.said.get("message") or "no word of ingress"
        why = f" ({self.said['reason']})" if self.said.get("reason") else ""
        answered = f"was answered {self.status}" if self.status else "got no answer"
        return f"A signed test delivery {answered}: {what}{why}"


def deliver(url: str, *, forge: str, proof: str, secret: str) -> Answer:
    """Posts one delivery and returns the answer."""
    headers = {"content-type": "application/json", **_headers(forge, proof, secret.encode())}
    request = urllib.request.Request(url, data=BODY, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S) as answer:
            return Answer(status=answer.status, said=_said(answer.read(ANSWER_BYTES_MAX)))
    except urllib.error.HTTPError as refused:
        return Answer(status=refused.code, said=_said(refused.read(ANSWER_BYTES_MAX)))
    except (OSError, HTTPException, ValueError) as error:
        return Answer(status=0, said={"message": str(error)})


def _said(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _headers(forge: str, proof: str, secret: bytes) -> dict[str, str]:
    delivery_id = str(uuid4())
    if forge == "gitlab":
        return {"x-gitlab-event": "Test Hook", **_gitlab_proof(proof, secret, delivery_id)}
    signature = hmac.new(secret, BODY, hashlib.sha256).hexdigest()
    if forge == "github":
        family, header, signature = "x-github", "x-hub-signature-256", f"sha256={signature}"
    else:
        family, header = f"x-{forge}", f"x-{forge}-signature"
    return {f"{family}-event": "ping", f"{family}-delivery": delivery_id, header: signature}


def _gitlab_proof(proof: str, secret: bytes, delivery_id: str) -> dict[str, str]:
    if proof == "token":
        return {"x-gitlab-token": secret.decode(), "idempotency-key": delivery_id}
    key = base64.b64decode(secret.removeprefix(SIGNING_TOKEN.encode()))
    now = str(int(time.time()))  # noqa: TID251  (a forge signs with its own clock)
    signed = b".".join((delivery_id.encode(), now.encode(), BODY))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{signature}",
    }
