"""Signs webhook bodies the way the forges do, for tests that post them."""

import hashlib
import hmac


def github_signature(secret: bytes, body: bytes) -> str:
    """The value of GitHub's X-Hub-Signature-256 header for exactly these bytes."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def bare_signature(secret: bytes, body: bytes) -> str:
    """The value of Gitea's and Forgejo's own signature headers for exactly these bytes."""
    return hmac.new(secret, body, hashlib.sha256).hexdigest()
