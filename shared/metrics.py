"""Every metric of the runtime, declared once; dashboards and alerts rely on the names."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
"""What /metrics shows. A service adds its own metrics to it."""

DURATION_BUCKETS_S = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)

PROCESS = ProcessCollector(registry=REGISTRY)

SERVICE_INFO = Gauge(
    "service_info",
    "Always 1; the labels say which service, version and replica this is.",
    ("service", "version", "instance"),
    registry=REGISTRY,
)

RPC_SERVER_DURATION = Histogram(
    "rpc_server_duration_seconds",
    "How long calls took, by method and gRPC status code.",
    ("method", "code"),
    buckets=DURATION_BUCKETS_S,
    registry=REGISTRY,
)
RPC_SERVER_IN_FLIGHT = Gauge(
    "rpc_server_in_flight", "Calls that are being served.", ("method",), registry=REGISTRY
)
RPC_SERVER_REFUSALS = Counter(
    "rpc_server_refusals_total",
    "Calls refused or failed, by method and reason.",
    ("method", "reason"),
    registry=REGISTRY,
)
HTTP_SERVER_DURATION = Histogram(
    "http_server_duration_seconds",
    "How long HTTP requests took, by route and status.",
    ("route", "status"),
    buckets=DURATION_BUCKETS_S,
    registry=REGISTRY,
)

BACKGROUND_TICKS = Counter(
    "background_ticks_total",
    "Runs of a background duty, by how they ended: ok or failed.",
    ("loop", "outcome"),
    registry=REGISTRY,
)

DATABASE_CONFLICTS = Counter(
    "database_conflicts_total",
    "Transactions rolled back by a deadlock or a serialization failure and run again.",
    registry=REGISTRY,
)
DATABASE_UNAVAILABLE = Counter(
    "database_unavailable_total",
    "Transactions that got no answer from the database and wrote nothing.",
    registry=REGISTRY,
)
DATABASE_OUTCOME_UNKNOWN = Counter(
    "database_outcome_unknown_total",
    "Commits whose answer was lost.",
    registry=REGISTRY,
)
DATABASE_POOL_CONNECTIONS = Gauge(
    "database_pool_connections", "Connections of this process.", ("state",), registry=REGISTRY
)
DATABASE_POOL_WAITING = Gauge(
    "database_pool_waiting", "Transactions that wait for a connection.", registry=REGISTRY
)

TRACE_SPANS_EXPORTED = Counter(
    "trace_spans_exported_total", "Spans that the collector took.", registry=REGISTRY
)
TRACE_SPANS_LOST = Counter(
    "trace_spans_lost_total",
    "Spans that no collector got: the queue was full, the export failed, time was up at exit, or a "
    "worker's span was refused by the collector.",
    ("cause",),
    registry=REGISTRY,
)
