"""What a webhook's headers say of it, once it is known to be authentic."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.errors import FieldInvalid
from starlette.datastructures import Headers

from services.ingress.body_rules import storable
from services.ingress.webhooks.forge import Forge

DELIVERY_ID_CHARACTERS_MAX = 200
EVENT_CHARACTERS_MAX = 100
CONTENT_TYPE_CHARACTERS_MAX = 200

UNNAMED = "unnamed"
"""What a refused delivery without an id is kept under; it keeps no other from being taken in."""

_PRINTABLE = re.compile("[!-~]+")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Identity and kind of a delivery."""

    delivery_id: str
    event: str
    content_type: str


def read_envelope(forge: Forge, headers: Headers, body: bytes) -> Envelope:
    """The envelope; raises FieldInvalid, which names the header."""
    encoding = headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise _invalid("content-encoding", "must be absent: bodies are taken as they are")
    return Envelope(
        delivery_id=_delivery_id(forge, headers, body),
        event=_named(headers, forge.event_header, EVENT_CHARACTERS_MAX, forge.event_named),
        content_type=_content_type(headers),
    )


def claimed_envelope(forge: Forge, headers: Headers, body: bytes) -> Envelope:
    """What can be kept of headers, in order or not; `body` is empty where it was not kept."""
    claimed = claimed_delivery_id(forge, headers)
    return Envelope(
        delivery_id=claimed or (body_id(body) if body else UNNAMED),
        event=storable(
            forge.event_named(headers.get(forge.event_header, "")), EVENT_CHARACTERS_MAX
        ),
        content_type=storable(headers.get("content-type", ""), CONTENT_TYPE_CHARACTERS_MAX),
    )


def body_id(body: bytes) -> str:
    """The delivery id of a body that came without one: the same body again is the same delivery."""
    return f"body-{hashlib.sha256(body).hexdigest()}"


def claimed_delivery_id(forge: Forge, headers: Headers) -> str:
    """The delivery id for people to read in an answer, believed or not; empty if it is none."""
    claimed = headers.get(forge.delivery_header, "")
    fits = len(claimed) <= DELIVERY_ID_CHARACTERS_MAX and _PRINTABLE.fullmatch(claimed)
    return claimed if fits else ""


def _delivery_id(forge: Forge, headers: Headers, body: bytes) -> str:
    if not forge.ids_itself and forge.delivery_header not in headers:
        return body_id(body)
    return _named(headers, forge.delivery_header, DELIVERY_ID_CHARACTERS_MAX)


def _named(
    headers: Headers, name: str, characters_max: int, understood: Callable[[str], str] = str
) -> str:
    values = [understood(value) for value in headers.getlist(name)]
    if len(values) != 1:
        raise _invalid(name, f"must be sent once, not {len(values)} times")
    if len(values[0]) > characters_max or not _PRINTABLE.fullmatch(values[0]):
        raise _invalid(name, f"must have 1 to {characters_max} visible ASCII characters, no blanks")
    return values[0]


def _content_type(headers: Headers) -> str:
    values = headers.getlist("content-type")
    if len(values) > 1 or any(len(value) > CONTENT_TYPE_CHARACTERS_MAX for value in values):
        raise _invalid(
            "content-type",
            f"must be sent once, with at most {CONTENT_TYPE_CHARACTERS_MAX} characters",
        )
    return values[0] if values else ""


def _invalid(header: str, sentence: str) -> FieldInvalid:
    return FieldInvalid(violations=[(header, sentence)])
