"""What was not taken in: counted each time, told in the log once a minute for each reason."""

from time import monotonic

import structlog

from services.ingress.metrics import DELIVERY_REFUSALS

TOLD_APART_S = 60.0

log = structlog.stdlib.get_logger(__name__)


class Told:
    """When each endpoint's refusal was last told; a sender that repeats itself fills no log."""

    def __init__(self) -> None:
        self._last_s: dict[tuple[str, str], float] = {}

    def is_due(self, endpoint: str, reason: str) -> bool:
        """Whether to tell it now; then it is told."""
        now_s = monotonic()
        if now_s - self._last_s.get((endpoint, reason), -TOLD_APART_S) < TOLD_APART_S:
            return False
        self._last_s[endpoint, reason] = now_s
        return True


_TOLD = Told()


def tell_refused(endpoint: str, reason: str, why: str) -> None:
    """Counts a refusal of a known endpoint; more of the same are told by the metric alone."""
    DELIVERY_REFUSALS.labels(endpoint, reason).inc()
    if _TOLD.is_due(endpoint, reason):
        log.warning("a delivery was refused", endpoint=endpoint, reason=reason, why=why)
