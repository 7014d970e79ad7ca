"""What ingress counts; dashboards and alerts rely on the names."""

from prometheus_client import Counter, Gauge

from shared.metrics import REGISTRY

DELIVERIES = Counter(
    "deliveries_total",
    "Deliveries that were stored or recognised, by endpoint and outcome.",
    ("endpoint", "outcome"),
    registry=REGISTRY,
)
DELIVERY_REFUSALS = Counter(
    "delivery_refusals_total",
    "Deliveries of a known endpoint that were not taken in, by endpoint and reason.",
    ("endpoint", "reason"),
    registry=REGISTRY,
)
WAKES = Counter(
    "dispatcher_wakes_total",
    "Wakes sent to dispatchers, by whether they were heard; a lost one costs a poll interval.",
    ("outcome",),
    registry=REGISTRY,
)
SEALED_SECRETS = Gauge(
    "sealed_secrets",
    "Stored webhook secrets by the key-encryption key that they are sealed under.",
    ("sealing_key_id",),
    registry=REGISTRY,
)
