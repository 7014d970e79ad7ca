"""Positions in a listing of connections, as text that callers hand back."""

import base64
import binascii
import json

FIRST = ("", "")
"""Before every connection."""


def page_token(tenant: str, forge_instance: str) -> str:
    """The position after this connection."""
    return base64.urlsafe_b64encode(json.dumps([tenant, forge_instance]).encode()).decode()


def page_position(token: str) -> tuple[str, str] | None:
    """The position that a token names. None: it was never given out."""
    try:
        match json.loads(base64.urlsafe_b64decode(token.encode())):
            case [str(tenant), str(forge_instance)] if (tenant + forge_instance).isprintable():
                return tenant, forge_instance
            case _:
                return None
    except (ValueError, binascii.Error, RecursionError):
        return None
