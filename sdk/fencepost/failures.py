"""What a handler may raise, and what the dispatcher is told of it."""

import math
import re
from collections.abc import Iterator
from typing import Final

from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import (
    BodyTooLarge,
    ConnectionDisabled,
    ConnectionMissing,
    FieldInvalid,
    PublicationBlocked,
    PublicationsHeld,
    ReconciliationRequired,
    SealingKeyUnknown,
    SecretTampered,
)

REASON_LENGTH_MAX: Final = 2000
RETRY_AFTER_S_MAX: Final = 30 * 24 * 3600.0
MASK: Final = "[redacted]"


class PermanentError(Exception):
    """Raised by a handler whose work must not be tried again."""


class DeterministicError(Exception):
    """Raised by a handler whose work will fail the same way again: at most one more try."""


class StateUnreadableError(DeterministicError):
    """What an earlier attempt made durable is not what this version of the SDK can read."""


class RetryLaterError(Exception):
    """Raised by a handler whose work may succeed later; `after_s` None leaves the delay open."""

    def __init__(self, reason: str, *, after_s: float | None = None) -> None:
        super().__init__(reason)
        if after_s is not None and not 0 <= after_s <= RETRY_AFTER_S_MAX:
            raise ValueError(f"after_s must be between 0 and {RETRY_AFTER_S_MAX:.0f}")
        self.after_s = after_s


_PERMANENT: Final = (PermanentError,)
_BLOCKED: Final = (
    ReconciliationRequired,
    PublicationsHeld,
    PublicationBlocked,
    ConnectionMissing,
    ConnectionDisabled,
    SealingKeyUnknown,
    SecretTampered,
)
_DETERMINISTIC: Final = (DeterministicError, FieldInvalid, BodyTooLarge)


def failed(failure: BaseException) -> work_pb2.Fail:
    """The outcome of a handler that raised; of a group, the leaf that says most decides."""
    leaves = list(_leaves(failure))
    fail = work_pb2.Fail(disposition=_disposition(leaves), reason=shown(failure))
    later = [leaf.after_s for leaf in leaves if isinstance(leaf, RetryLaterError)]
    if waits_s := [after_s for after_s in later if after_s is not None]:
        fail.retry_after.FromMilliseconds(math.ceil(max(waits_s) * 1000))
    return fail


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            yield from _leaves(each)
    else:
        yield failure


def _disposition(leaves: list[BaseException]) -> work_pb2.Disposition.ValueType:
    for kinds, disposition in (
        (_PERMANENT, work_pb2.DISPOSITION_PERMANENT),
        (_BLOCKED, work_pb2.DISPOSITION_BLOCKED),
        (_DETERMINISTIC, work_pb2.DISPOSITION_DETERMINISTIC),
    ):
        if any(isinstance(leaf, kinds) for leaf in leaves):
            return disposition
    return work_pb2.DISPOSITION_TRANSIENT


# Each keeps what is before the secret, so that a reader sees what was there.
_SECRETS = (
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


def masked(text: str) -> str:
    """The text without tokens, keys and passwords (K2)."""
    for secret in _SECRETS:
        text = secret.sub(rf"\g<kept>{MASK}", text)
    return text


def storable(text: str) -> str:
    """The text as every store can keep it: valid UTF-8, no NUL."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def shown(failure: BaseException) -> str:
    """Type and text of a failure as the dispatcher records it, at most REASON_LENGTH_MAX long."""
    texts = [f"{type(leaf).__name__}: {leaf}".rstrip(": ") for leaf in _leaves(failure)]
    return storable(masked("; ".join(texts)))[:REASON_LENGTH_MAX]
