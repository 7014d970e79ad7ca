"""QueueService: protobuf in, protobuf out, for the caller's tenant."""

from datetime import datetime

from fencepost.dispatcher.v1 import queues_pb2 as pb
from fencepost.dispatcher.v1.queues_pb2_grpc import QueueServiceServicer
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from services.dispatcher.queues.model import Declared
from services.dispatcher.queues.operations import Admin, PutOutcome, PutQueue, QueueOperations
from services.dispatcher.queues.store import QueueRow
from shared.rpc.caller import current_caller

PAGE_SIZE_DEFAULT = 100

Context = aio.ServicerContext[object, object]


class QueueServicer(QueueServiceServicer):
    """QueueService; what it changes holds on every replica at once."""

    def __init__(self, operations: QueueOperations) -> None:
        self._operations = operations

    async def PutQueue(  # noqa: N802  (the contract's name)
        self, request: pb.PutQueueRequest, _context: Context
    ) -> pb.PutQueueResponse:
        """Declares or changes a queue."""
        command = PutQueue(
            admin=_admin(),
            declared=_declared(request.queue),
            validate_only=request.validate_only,
        )
        return _put(await self._operations.put(command))

    async def GetQueue(  # noqa: N802  (the contract's name)
        self, request: pb.GetQueueRequest, _context: Context
    ) -> pb.GetQueueResponse:
        """Reads a queue."""
        row = await self._operations.get(current_caller().require_tenant(), request.name)
        return pb.GetQueueResponse(queue=_queue(row))

    async def ListQueues(  # noqa: N802  (the contract's name)
        self, request: pb.ListQueuesRequest, _context: Context
    ) -> pb.ListQueuesResponse:
        """One page of queues."""
        page = await self._operations.page(
            current_caller().tenant_or_all(),
            size=request.page_size or PAGE_SIZE_DEFAULT,
            token=request.page_token,
        )
        return pb.ListQueuesResponse(
            queues=[_queue(row) for row in page.queues], next_page_token=page.next_page_token
        )

    async def PauseQueue(  # noqa: N802  (the contract's name)
        self, request: pb.PauseQueueRequest, _context: Context
    ) -> pb.PauseQueueResponse:
        """Ends a queue's grants."""
        row = await self._operations.pause(_admin(), request.name, request.reason)
        return pb.PauseQueueResponse(queue=_queue(row))

    async def ResumeQueue(  # noqa: N802  (the contract's name)
        self, request: pb.ResumeQueueRequest, _context: Context
    ) -> pb.ResumeQueueResponse:
        """Lets a queue's grants go on."""
        row = await self._operations.resume(_admin(), request.name, request.reason)
        return pb.ResumeQueueResponse(queue=_queue(row))


def _admin() -> Admin:
    caller = current_caller()
    return Admin(key_id=caller.key_id, tenant=caller.require_tenant())


def _put(outcome: PutOutcome) -> pb.PutQueueResponse:
    return pb.PutQueueResponse(
        queue=None if outcome.stored is None else _queue(outcome.stored),
        created=outcome.created,
        changes=[pb.QueueChange(**vars(change)) for change in outcome.changes],
    )


def _declared(said: pb.Queue) -> Declared:
    delays = said.retry_delays
    return Declared(
        name=said.name,
        retries_max=said.max_retries,
        retry_delays_ms=tuple(delay.ToMilliseconds() for delay in delays.delays),
        retry_cap_ms=delays.cap.ToMilliseconds() if delays.HasField("cap") else None,
        retry_jitter_percent=delays.jitter_percent,
        lease_ms=said.lease_time.ToMilliseconds(),
    )


def _queue(row: QueueRow) -> pb.Queue:
    return pb.Queue(
        name=row.name,
        max_retries=row.retries_max,
        retry_delays=pb.RetryDelays(
            delays=[_duration(delay_ms) for delay_ms in row.retry_delays_ms],
            cap=None if row.retry_cap_ms is None else _duration(row.retry_cap_ms),
            jitter_percent=row.retry_jitter_percent,
        ),
        lease_time=_duration(row.lease_ms),
        tenant=row.tenant,
        created_at=_timestamp(row.created_at),
        changed_at=_timestamp(row.changed_at),
        paused_at=None if row.paused_at is None else _timestamp(row.paused_at),
    )


def _duration(milliseconds: int) -> Duration:
    length = Duration()
    length.FromMilliseconds(milliseconds)
    return length


def _timestamp(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp
