"""IntentService: protobuf in, protobuf out."""

import hashlib
from datetime import datetime

from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import intents_pb2, intents_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import ServicerContext

from services.dispatcher.dispatch.wakeups import Lane, Wakeups
from services.dispatcher.intents.operations import Enqueue, IntentOperations
from services.dispatcher.intents.store import IntentView, NewIntent
from shared.keys import Key
from shared.rpc.caller import current_caller
from shared.rpc.moments import moment
from shared.telemetry import current_traceparent

DEFAULT_CONTENT_TYPE = "application/octet-stream"


class IntentServicer(intents_pb2_grpc.IntentServiceServicer):
    """Translates between the wire and the operations."""

    def __init__(self, operations: IntentOperations, wakeups: Wakeups) -> None:
        self._operations = operations
        self._wakeups = wakeups

    async def EnqueueIntents(  # noqa: N802 - named by the contract
        self,
        request: intents_pb2.EnqueueIntentsRequest,
        context: ServicerContext[  # noqa: ARG002
            intents_pb2.EnqueueIntentsRequest, intents_pb2.EnqueueIntentsResponse
        ],
    ) -> intents_pb2.EnqueueIntentsResponse:
        """Adds intents and wakes who listens to their queues."""
        command = _enqueue(request, tenant=current_caller().require_tenant())
        intent_ids = await self._operations.enqueue(command)
        self._wakeups.wake({Lane(command.tenant, intent.queue) for intent in command.intents})
        return intents_pb2.EnqueueIntentsResponse(intent_ids=intent_ids)

    async def GetIntent(  # noqa: N802 - named by the contract
        self,
        request: intents_pb2.GetIntentRequest,
        context: ServicerContext[  # noqa: ARG002
            intents_pb2.GetIntentRequest, intents_pb2.GetIntentResponse
        ],
    ) -> intents_pb2.GetIntentResponse:
        """Reads one intent."""
        view = await self._operations.get(current_caller().require_tenant(), request.intent_id)
        return intents_pb2.GetIntentResponse(intent=_intent(view))


def _enqueue(request: intents_pb2.EnqueueIntentsRequest, *, tenant: str) -> Enqueue:
    traceparent = current_traceparent()
    return Enqueue(
        tenant=tenant,
        request_id=request.request_id,
        digest=hashlib.sha256(request.SerializeToString(deterministic=True)).digest(),
        intents=[
            _new_intent(intent, f"intents[{at}]", traceparent)
            for at, intent in enumerate(request.intents)
        ],
    )


def _new_intent(intent: intents_pb2.NewIntent, path: str, traceparent: str) -> NewIntent:
    return NewIntent(
        queue=intent.queue,
        key=_key(intent.key) if intent.HasField("key") else None,
        label=intent.key.label,
        action=intent.action,
        priority=intent.priority,
        not_before=moment(intent.not_before, f"{path}.not_before")
        if intent.HasField("not_before")
        else None,
        payload=intent.payload,
        content_type=intent.content_type or DEFAULT_CONTENT_TYPE,
        schema_name=intent.schema_name,
        traceparent=traceparent,
    )


def _key(key: key_pb2.Key) -> Key:
    return Key(
        forge_instance=key.forge_instance,
        repo_id=key.repo_id,
        number=key.number,
        head_sha=key.head_sha,
        suffix=key.suffix,
    )


def _intent(view: IntentView) -> intents_pb2.Intent:
    intent = intents_pb2.Intent(
        intent_id=view.intent_id,
        queue=view.queue,
        action=view.action,
        generation=view.generation,
        status=intents_pb2.IntentStatus.Value(f"INTENT_STATUS_{view.status.upper()}"),
        place=_place(view),
        attempts=view.attempts,
        created_at=_timestamp(view.created_at),
        settled_at=_timestamp(view.settled_at) if view.settled_at else None,
        reason=view.reason,
        result=view.result or b"",
    )
    if view.forge_instance is not None:
        intent.key.CopyFrom(
            key_pb2.Key(
                forge_instance=view.forge_instance,
                repo_id=view.repo_id or 0,
                number=view.number or 0,
                head_sha=view.head_sha or "",
                suffix=view.suffix,
                label=view.key_label,
            )
        )
    return intent


def _place(view: IntentView) -> intents_pb2.IntentPlace.ValueType:
    if view.is_ready:
        return intents_pb2.INTENT_PLACE_READY
    if view.is_waiting:
        return intents_pb2.INTENT_PLACE_WAITING
    if view.is_leased:
        return intents_pb2.INTENT_PLACE_LEASED
    return intents_pb2.INTENT_PLACE_UNSPECIFIED


def _timestamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
