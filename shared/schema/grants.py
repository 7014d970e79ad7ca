"""What each service's role may do, per table and column, in one place (X2).

Cross-service writes are the closed list below, each with the operation it belongs to. UPDATE on
`lock_only`, which a CHECK holds constant, lets a role lock a row and change nothing in it. No role
may UPDATE or DELETE the audit trail.
"""

from dataclasses import dataclass
from typing import Literal

Service = Literal["ingress", "dispatcher", "publisher", "watchdog"]
Verb = Literal["SELECT", "INSERT", "UPDATE", "DELETE"]

SERVICES: tuple[Service, ...] = ("ingress", "dispatcher", "publisher", "watchdog")


def role_of(service: Service) -> str:
    """Name of the service's database role."""
    return f"fencepost_{service}"


@dataclass(frozen=True)
class Grant:
    """One verb on one table; UPDATE always names its columns."""

    service: Service
    table: str
    verb: Verb
    columns: tuple[str, ...] = ()


def _read(service: Service, *tables: str) -> tuple[Grant, ...]:
    return tuple(Grant(service, table, "SELECT") for table in tables)


def _read_insert(service: Service, *tables: str) -> tuple[Grant, ...]:
    return tuple(Grant(service, table, verb) for table in tables for verb in ("SELECT", "INSERT"))


_HEAD_COLUMNS = (
    "repo_name",
    "url",
    "base_ref",
    "head_sha",
    "generation",
    "superseded_through",
    "abandoned_through",
    "state",
    "forge_updated_at",
    "updated_at",
)
_ENDPOINT_COLUMNS = (
    "proof",
    "routes",
    "bot_ids",
    "trusted_ids",
    "wanted_events",
    "drafts",
    "body_limit_bytes",
    "changed_at",
    "disabled_at",
)
_LEASE_COLUMNS = (
    "generation",
    "state",
    "epoch",
    "holder",
    "session_id",
    "intent_id",
    "queue",
    "priority",
    "attempts",
    "grant_id",
    "lease_ms",
    "granted_at",
    "renewed_at",
    "claimable_at",
    "settled_at",
)
_RUN_COLUMNS = (
    "intent_id",
    "epoch",
    "version",
    "flush_id",
    "state",
    "state_schema_version",
    "state_codec",
    "event_cursor",
    "phase",
    "analysis_status",
    "final",
    "flushed_at",
)

_CONNECTION_COLUMNS = (
    "base_url",
    "version",
    "sealing_key_id",
    "wrapped_key",
    "ciphertext",
    "changed_at",
    "disabled_at",
)
_QUEUE_COLUMNS = (
    "retries_max",
    "retry_delays_ms",
    "retry_cap_ms",
    "retry_jitter_percent",
    "lease_ms",
    "changed_at",
    "paused_at",
)

_LOCK_AND_DELETE: tuple[tuple[Verb, tuple[str, ...]], ...] = (
    ("UPDATE", ("lock_only",)),
    ("DELETE", ()),
)

_EVERY_SERVICE = tuple(
    grant for service in SERVICES for grant in _read(service, "api_keys", "schema_revision")
)

_INGRESS = (
    *_read_insert(
        "ingress", "delivery_markers", "body_markers", "deliveries", "change_request_heads"
    ),
    *(
        Grant("ingress", table, verb, columns)
        for table in ("delivery_markers", "body_markers")
        for verb, columns in _LOCK_AND_DELETE
    ),
    *_read_insert("ingress", "change_requests", "merge_groups"),
    Grant("ingress", "merge_groups", "UPDATE", ("numbers", "gone_at", "expires_at")),
    Grant("ingress", "merge_groups", "DELETE"),
    Grant("ingress", "change_requests", "UPDATE", _HEAD_COLUMNS),
    *_read_insert("ingress", "endpoints", "endpoint_secrets"),
    Grant("ingress", "endpoints", "UPDATE", _ENDPOINT_COLUMNS),
    Grant("ingress", "endpoint_secrets", "UPDATE", ("sealing_key_id", "wrapped_key", "live_until")),
    Grant("ingress", "endpoint_secrets", "DELETE"),
    Grant("ingress", "audit_entries", "INSERT"),
)

_DISPATCHER = (
    *_read(
        "dispatcher",
        "deliveries",
        "change_requests",
        "change_request_heads",
        "publications",
        "publication_attempts",
    ),
    *_read_insert(
        "dispatcher",
        "intents",
        "ready",
        "waiting",
        "leases",
        "dispatches",
        "dead_letters",
        "sessions",
        "runs",
        "flushes",
        "run_spans",
        "request_ids",
        "queues",
    ),
    Grant("dispatcher", "queues", "UPDATE", _QUEUE_COLUMNS),
    Grant("dispatcher", "audit_entries", "INSERT"),
    Grant(
        "dispatcher",
        "intents",
        "UPDATE",
        (
            *("status", "attempts", "settled_at", "settled_by", "reason", "result"),
            *("head_sha", "key", "key_label", "generation"),
        ),
    ),
    Grant("dispatcher", "ready", "UPDATE", ("attempts",)),
    Grant("dispatcher", "ready", "DELETE"),
    Grant("dispatcher", "waiting", "UPDATE", ("due_at", "waits_on", "reason", "attempts")),
    Grant("dispatcher", "waiting", "DELETE"),
    Grant("dispatcher", "leases", "UPDATE", _LEASE_COLUMNS),
    Grant("dispatcher", "runs", "UPDATE", _RUN_COLUMNS),
    Grant("dispatcher", "run_spans", "UPDATE", ("exported_at",)),
    Grant(
        "dispatcher",
        "sessions",
        "UPDATE",
        ("queues", "version", "labels", "replica", "state", "draining", "heard_at", "ended_at"),
    ),
)

_PUBLISHER = (
    *_read("publisher", "intents", "runs"),
    *_read_insert("publisher", "publications", "publication_attempts", "holds", "request_ids"),
    Grant("publisher", "audit_entries", "INSERT"),
    Grant(
        "publisher",
        "publication_attempts",
        "UPDATE",
        ("status", "settled_at", "remote_id", "remote_url", "result", "detail"),
    ),
    Grant("publisher", "holds", "UPDATE", ("released_by", "released_at")),
    *_read_insert("publisher", "connections"),
    Grant("publisher", "connections", "UPDATE", _CONNECTION_COLUMNS),
)

_WATCHDOG = (
    *_read(
        "watchdog",
        "endpoints",
        "deliveries",
        "change_requests",
        "change_request_heads",
        "intents",
        "ready",
        "waiting",
        "leases",
        "dispatches",
        "sessions",
        "runs",
        "flushes",
        "run_spans",
        "publications",
        "publication_attempts",
        "holds",
    ),
    Grant("watchdog", "api_keys", "INSERT"),
    Grant("watchdog", "api_keys", "UPDATE", ("ends_at",)),
    Grant("watchdog", "audit_entries", "INSERT"),
    *_read_insert("watchdog", "request_ids"),
)

CROSS_SERVICE_WRITES: dict[str, tuple[Grant, ...]] = {
    "ingress submits a delivery: the intent is made in the intake transaction (I2)": (
        *_read_insert("ingress", "intents", "ready", "waiting"),
    ),
    "ingress records a newer head or an end: what it makes unwanted ends with it (I9)": (
        *_read("ingress", "leases"),
        Grant("ingress", "leases", "UPDATE", ("state", "settled_at")),
        Grant("ingress", "dispatches", "INSERT"),
        Grant("ingress", "intents", "UPDATE", ("status", "attempts", "settled_at", "reason")),
    ),
    "ingress takes dead work in again: a new intent, which the old one names (I14)": (
        *_read("ingress", "dead_letters"),
        Grant("ingress", "dead_letters", "UPDATE", ("redriven_as", "redriven_at")),
        Grant("ingress", "intents", "UPDATE", ("status", "settled_by")),
    ),
    "dispatcher locks the change request when it grants (I9)": (
        Grant("dispatcher", "change_requests", "UPDATE", ("lock_only",)),
    ),
    "dispatcher locks the merge group when it grants (I9)": (
        *_read("dispatcher", "merge_groups"),
        Grant("dispatcher", "merge_groups", "UPDATE", ("lock_only",)),
    ),
    "dispatcher resolves a head: a change request that nobody told of is recorded (I7)": (
        *_read_insert("dispatcher", "change_requests", "change_request_heads"),
    ),
    "publisher locks the change request and the lease when it claims (L3, P2b)": (
        *_read("publisher", "change_requests", "leases"),
        Grant("publisher", "change_requests", "UPDATE", ("lock_only",)),
        Grant("publisher", "leases", "UPDATE", ("lock_only",)),
    ),
}
"""Writes and locks on another service's tables: the whole list, by operation."""

GRANTS: tuple[Grant, ...] = tuple(
    dict.fromkeys(
        (
            *_EVERY_SERVICE,
            *_INGRESS,
            *_DISPATCHER,
            *_PUBLISHER,
            *_WATCHDOG,
            *(grant for grants in CROSS_SERVICE_WRITES.values() for grant in grants),
        )
    )
)

SEQUENCE_USAGE: tuple[tuple[Service, str], ...] = (
    ("ingress", "ready_number"),
    ("ingress", "deliveries_delivery_seq_seq"),
    ("dispatcher", "ready_number"),
    ("dispatcher", "intents_intent_id_seq"),
)
"""Roles that draw ready numbers. Ingress also draws a delivery's number, which its intents carry,
before the delivery is stored with what became of it; the dispatcher draws an intent's, which is
the key of one that names none."""
