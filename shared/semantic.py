"""Names of spans and their attributes, by OpenTelemetry's conventions; ours begin fencepost."""

from typing import Final

# Spans
WEBHOOK: Final = "webhook"
INTENT_DISPATCH: Final = "intent.dispatch"
CHECKPOINT_FLUSH: Final = "checkpoint.flush"
PUBLICATION: Final = "publication"

# Resource
SERVICE_NAMESPACE: Final = "service.namespace"
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
SERVICE_INSTANCE_ID: Final = "service.instance.id"

# OpenTelemetry's own
RPC_SYSTEM_NAME: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_RESPONSE_STATUS_CODE: Final = "rpc.response.status_code"
ERROR_TYPE: Final = "error.type"
HTTP_REQUEST_METHOD: Final = "http.request.method"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
HTTP_ROUTE: Final = "http.route"
URL_FULL: Final = "url.full"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
MESSAGING_DESTINATION_NAME: Final = "messaging.destination.name"

# Identity of work
TENANT: Final = "fencepost.tenant"
ENDPOINT: Final = "fencepost.endpoint"
DELIVERY_ID: Final = "fencepost.delivery.id"
KEY: Final = "fencepost.key"
ACTION: Final = "fencepost.action"
INTENT_ID: Final = "fencepost.intent.id"
EPOCH: Final = "fencepost.epoch"
ATTEMPT: Final = "fencepost.attempt"
SESSION_ID: Final = "fencepost.session.id"

# What was done
OUTCOME: Final = "fencepost.outcome"
RUN_ID: Final = "fencepost.run.id"
CHECKPOINT_VERSION: Final = "fencepost.checkpoint.version"
CHECKPOINT_BYTES: Final = "fencepost.checkpoint.bytes"
CHECKPOINT_SPANS: Final = "fencepost.checkpoint.spans"
CHECKPOINT_FINAL: Final = "fencepost.checkpoint.final"
PUBLICATION_ID: Final = "fencepost.publication.id"
PUBLICATION_KIND: Final = "fencepost.publication.kind"
PUBLICATION_ATTEMPT: Final = "fencepost.publication.attempt"
PUBLICATION_OUTCOME: Final = "fencepost.publication.outcome"
