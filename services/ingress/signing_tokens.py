"""Signing tokens of GitLab's: `whsec_` and a key in base64."""

import base64

PREFIX = b"whsec_"


def signing_key(token: bytes) -> bytes | None:
    """The key in a signing token; None when it is not one."""
    if not token.startswith(PREFIX):
        return None
    try:
        return base64.b64decode(token.removeprefix(PREFIX), validate=True) or None
    except ValueError:
        return None
