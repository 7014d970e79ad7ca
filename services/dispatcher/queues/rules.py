"""What a queue's rules say, and what a change of them amounts to."""

import base64
from dataclasses import dataclass

from services.dispatcher.queues.model import Declared


@dataclass(frozen=True, kw_only=True)
class Change:
    """One field that a declaration changes, as text; what there is not is empty."""

    field: str
    before: str
    after: str


def retry_delay_ms(declared: Declared, *, attempts: int, draw: float) -> int:
    """The wait after so many attempts; `draw`, from 0 to 1, says how much of the jitter (Q7)."""
    delays_ms, cap_ms = declared.retry_delays_ms, declared.retry_cap_ms
    beyond = attempts - len(delays_ms)
    if beyond <= 0:
        delay_ms = delays_ms[attempts - 1]
    elif cap_ms is None:
        delay_ms = delays_ms[-1]
    else:
        delay_ms = min(cap_ms, delays_ms[-1] * 2**beyond)
    return round(delay_ms * (1 - draw * declared.retry_jitter_percent / 100))


Problem = tuple[str, str]
"""A field's path in the request, and what it must be."""


def problems(declared: Declared) -> list[Problem]:
    """What no single field's rule can say."""
    cap_ms, last_ms = declared.retry_cap_ms, declared.retry_delays_ms[-1]
    if cap_ms is None:
        return []
    if last_ms == 0:
        return [("queue.retry_delays.delays", "must not end with 0 where they grow up to a cap")]
    if max(declared.retry_delays_ms) > cap_ms:
        return [("queue.retry_delays.cap", "must not be below one of the delays")]
    return []


def changes(before: Declared | None, after: Declared) -> list[Change]:
    """Every field that differs, in the words of the contract."""
    old = {} if before is None else _facts(before)
    return [
        Change(field=name, before=old.get(name, ""), after=text)
        for name, text in _facts(after).items()
        if old.get(name, "") != text
    ]


def page_token(tenant: str, name: str) -> str:
    """Where the next page begins: after this queue, opaque to callers."""
    return base64.urlsafe_b64encode(f"{tenant} {name}".encode()).decode()


def page_position(token: str) -> tuple[str, str] | None:
    """The last queue before the page; None for a token that was never given out."""
    try:
        text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except ValueError:
        return None
    tenant, separator, name = text.rpartition(" ")
    return (tenant, name) if separator and "\x00" not in text else None


def _facts(declared: Declared) -> dict[str, str]:
    cap_ms = declared.retry_cap_ms
    return {
        "max_retries": str(declared.retries_max),
        "retry_delays.delays": ", ".join(f"{each} ms" for each in declared.retry_delays_ms),
        "retry_delays.cap": "" if cap_ms is None else f"{cap_ms} ms",
        "retry_delays.jitter_percent": str(declared.retry_jitter_percent),
        "lease_time": f"{declared.lease_ms} ms",
    }
