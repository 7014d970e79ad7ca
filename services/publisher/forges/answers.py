"""What is read the same way from every forge's answer."""

import json
from dataclasses import replace

from services.publisher.forges.transport import Answer, Reply

DETAIL_LIMIT_CHARACTERS = 500
HIDDEN = "[token]"


def without_secret(reply: Reply, secret: str) -> Reply:
    """The reply of a forge that may have echoed the credential, without it. Keeps K2."""
    if not isinstance(reply, Answer):
        return replace(reply, why=reply.why.replace(secret, HIDDEN))
    headers = {name: value.replace(secret, HIDDEN) for name, value in reply.headers.items()}
    body = reply.body.replace(secret.encode(), HIDDEN.encode())
    return Answer(reply.status, headers, body)


def json_object(answer: Answer) -> dict[str, object] | None:
    """The object that it says it is; None for anything else."""
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        return None
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def shown(text: str) -> str:
    """Printable and short, as people read it."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable[:DETAIL_LIMIT_CHARACTERS]
