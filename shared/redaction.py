"""Keeps secrets out of what is written (K2): by a value's name, its form and its content."""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

from pydantic import SecretStr
from pydantic_settings import BaseSettings

MASK = "[redacted]"
SECRET_CHARACTERS_MIN = 6
"""A configured secret shorter than this would mask ordinary words."""

SECRET_NAME = re.compile(
    r"(^|_)(password|passwd|secret|token|authorization|api_key|private_key|credentials?|cookie"
    r"|signature|database_url|dsn)s?$",
    re.IGNORECASE,
)

# Each keeps what is before the secret, so that a reader sees what was there.
SECRET_FORMS = (
    re.compile(r"(?P<kept>\bfp_[a-z0-9]{8,40}_)[A-Za-z0-9]{16,}"),
    re.compile(r"(?P<kept>\b(?:Bearer|Basic|token)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"(?P<kept>://[^/\s:@]*:)[^/\s@]+(?=@)"),
    re.compile(r"(?P<kept>\bpassword\s*=\s*)('[^']*'|[^\s'&]+)", re.IGNORECASE),
    re.compile(r"(?P<kept>\b(?:gh[pousr]_|github_pat_|glpat-))[A-Za-z0-9_-]{16,}"),
    re.compile(
        r"(?P<kept>-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]*?"
        r"(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    ),
)

Redact = Callable[[object], object]


def redactor(secrets: Iterable[str] = ()) -> Redact:
    """A function that gives any value without secrets; the given ones are known by content."""
    known = _known(secrets)

    def text(value: str) -> str:
        if known is not None:
            value = known.sub(MASK, value)
        for form in SECRET_FORMS:
            value = form.sub(rf"\g<kept>{MASK}", value)
        return value

    def clean(value: object) -> object:
        match value:
            case str():
                return text(value)
            case bytes() | bytearray():
                return text(bytes(value).decode(errors="backslashreplace"))
            case bool() | int() | float() | None:
                return value
            case Mapping():
                return {text(str(name)): by_name(str(name), each) for name, each in value.items()}
            case list() | tuple() | set() | frozenset():
                return [clean(each) for each in value]
            case _:
                return text(str(value))

    def by_name(name: str, value: object) -> object:
        harmless = not value or isinstance(value, int | float)
        return clean(value) if harmless or not SECRET_NAME.search(name) else MASK

    return clean


def secrets_of(settings: BaseSettings) -> list[str]:
    """Every secret these settings hold, the passwords inside their URLs, the keys of a keyring."""
    found = []
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            text = value.get_secret_value()
            found.append(text)
            found += re.findall(r"://[^/\s:@]*:([^/\s@]+)@", text)
            found += re.findall(r"^\s*[a-z0-9._-]+:([A-Za-z0-9+/]{43}=)\s*$", text, re.MULTILINE)
    return found


def _known(secrets: Iterable[str]) -> re.Pattern[str] | None:
    forms = {
        form
        for secret in secrets
        if len(secret) >= SECRET_CHARACTERS_MIN
        for form in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode())
    }
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if forms else None
