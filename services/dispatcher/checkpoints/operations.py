"""Flushing and loading checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import CheckpointStale, RequestIdReused

from services.dispatcher.checkpoints import spans_store, store
from services.dispatcher.checkpoints.spans_store import WorkerSpan
from services.dispatcher.checkpoints.store import Checkpoint, RunRow
from services.dispatcher.dispatch import fences_store
from services.dispatcher.dispatch.fences_store import Fence, Held
from shared.database import Database, Transaction


@dataclass(frozen=True, kw_only=True)
class Flush:
    """One checkpoint under a fence, with the spans that finished since the last."""

    tenant: str
    fence: Fence
    checkpoint: Checkpoint
    spans: Sequence[WorkerSpan]


@dataclass(frozen=True)
class FlushAnswer:
    """The version that the flush made, now or before."""

    run_id: int
    version: int
    repeated: bool


class CheckpointOperations:
    """Checkpoints on one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def flush(self, command: Flush) -> FlushAnswer:
        """State, spans and cursor in one fenced transaction. Keeps C1, C2, L3.

        A repeat returns the stored acknowledgement, also after the lease was lost. Raises
        LeaseLost, CheckpointStale when the run is not at the version it is based on, and
        RequestIdReused when the flush id stands for another checkpoint.
        """
        return await self._database.run(lambda tx: _flush(tx, command))

    async def load(self, tenant: str, fence: Fence) -> RunRow | None:
        """Latest checkpoint of the run under a live lease; None when it never flushed.

        Raises LeaseLost.
        """

        async def loaded(tx: Transaction) -> RunRow | None:
            held = await _held(tx, tenant, fence)
            if held is None:
                raise fence.lost()
            return await store.run(
                tx,
                tenant=tenant,
                key=fence.key,
                action=fence.action,
                generation=held.generation,
            )

        return await self._database.run(loaded)


async def _flush(tx: Transaction, command: Flush) -> FlushAnswer:
    tenant, fence, checkpoint = command.tenant, command.fence, command.checkpoint
    held = await _held(tx, tenant, fence)
    stored = await store.stored_flush(
        tx,
        tenant=tenant,
        key=fence.key,
        action=fence.action,
        flush_id=checkpoint.flush_id,
    )
    if stored is not None:
        if stored.request_sha256 != checkpoint.request_sha256:
            raise RequestIdReused(request_id=checkpoint.flush_id)
        return FlushAnswer(stored.run_id, stored.version, repeated=True)
    if held is None:
        raise fence.lost()
    written = await store.write_run(
        tx,
        checkpoint,
        tenant=tenant,
        key=fence.key,
        action=fence.action,
        generation=held.generation,
        intent_id=fence.intent_id,
        epoch=fence.epoch,
    )
    if written is None:
        raise await _stale(tx, tenant, held, checkpoint.based_on_version)
    await store.acknowledge(tx, checkpoint, written, tenant=tenant, epoch=fence.epoch)
    if command.spans:
        await spans_store.store_spans(tx, tenant=tenant, holder=fence.holder, spans=command.spans)
    return FlushAnswer(written.run_id, written.version, repeated=False)


async def _held(tx: Transaction, tenant: str, fence: Fence) -> Held | None:
    held = await fences_store.lock_held(tx, tenant=tenant, fences=[fence])
    return held.get((fence.key, fence.action))


async def _stale(tx: Transaction, tenant: str, held: Held, base_version: int) -> CheckpointStale:
    latest = await store.run(
        tx, tenant=tenant, key=held.key, action=held.action, generation=held.generation
    )
    return CheckpointStale(
        base_version=base_version, latest_version=latest.version if latest else 0
    )
