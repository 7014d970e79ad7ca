"""Signs webhook bodies the way the forges do, for tests that post them."""

import base64
import hashlib
import hmac


def github_signature(secret: bytes, body: bytes) -> str:
    """The value of GitHub's X-Hub-Signature-256 header for exactly these bytes."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def bare_signature(secret: bytes, body: bytes) -> str:
    """The value of Gitea's and Forgejo's own signature headers for exactly these bytes."""
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


def gitlab_signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """The value of GitLab's webhook-signature header; the key is what its token holds in base64."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
