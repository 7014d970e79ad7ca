"""Names of the call metadata that both sides of the wire agree on."""

from typing import Final

AUTHORIZATION: Final = "authorization"
BEARER: Final = "Bearer "
TENANT: Final = "fencepost-tenant"
"""Tenant that an operator's key, which belongs to none, acts for (X8)."""

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

STATUS_DETAILS: Final = "grpc-status-details-bin"
RETRY_PUSHBACK: Final = "grpc-retry-pushback-ms"
"""Tells gRPC's own retries how long to wait; RetryInfo tells everybody else."""
