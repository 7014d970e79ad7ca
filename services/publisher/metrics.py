"""The publisher's own figures."""

from prometheus_client import Counter

from shared.metrics import REGISTRY

PUBLICATION_ATTEMPTS = Counter(
    "publication_attempts_total",
    "Attempts that were sent to a forge, by kind and what came of them.",
    ("kind", "outcome"),
    registry=REGISTRY,
)
PUBLICATIONS_UNRECORDED = Counter(
    "publications_unrecorded_total",
    "Outcomes that could not be recorded in time; the attempts are left as running.",
    registry=REGISTRY,
)
