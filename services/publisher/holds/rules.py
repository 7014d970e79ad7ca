"""The digest of a request to hold, by which a repeat is told from another request."""

import hashlib
import json


def request_digest(*values: str | int | None) -> bytes:
    """SHA-256 of the values in their order."""
    return hashlib.sha256(json.dumps(values).encode("ascii")).digest()
