"""What a webhook's headers say of it, once it is known to be authentic."""

import re
from dataclasses import dataclass

from fencepost.errors import FieldInvalid
from starlette.datastructures import Headers

from services.ingress.webhooks.forge import Forge

DELIVERY_ID_CHARACTERS_MAX = 200
EVENT_CHARACTERS_MAX = 100
CONTENT_TYPE_CHARACTERS_MAX = 200

_PRINTABLE = re.compile("[!-~]+")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Identity and kind of a delivery."""

    delivery_id: str
    event: str
    content_type: str


def read_envelope(forge: Forge, headers: Headers) -> Envelope:
    """The envelope; raises FieldInvalid, which names the header."""
    encoding = headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise _invalid("content-encoding", "must be absent: bodies are taken as they are")
    return Envelope(
        delivery_id=_named(headers, forge.delivery_header, DELIVERY_ID_CHARACTERS_MAX),
        event=_named(headers, forge.event_header, EVENT_CHARACTERS_MAX),
        content_type=_content_type(headers),
    )


def claimed_delivery_id(forge: Forge, headers: Headers) -> str:
    """The delivery id for people to read in an answer, believed or not; empty if it is none."""
    claimed = headers.get(forge.delivery_header, "")
    fits = len(claimed) <= DELIVERY_ID_CHARACTERS_MAX and _PRINTABLE.fullmatch(claimed)
    return claimed if fits else ""


def _named(headers: Headers, name: str, characters_max: int) -> str:
    values = headers.getlist(name)
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
