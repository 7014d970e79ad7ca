"""Asks a forge's module whether it believes a request, as the door does."""

from collections.abc import Sequence

from starlette.datastructures import Headers

from services.ingress.webhooks.forge import Forge


def is_authentic_to(
    forge: Forge, headers: Sequence[tuple[str, str]], body: bytes, secrets: Sequence[bytes]
) -> bool:
    """Whether the body passes with these headers, which may repeat."""
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    check = forge.check(Headers(raw=raw), secrets)
    check.update(body[:3])
    check.update(body[3:])
    return check.passed()
