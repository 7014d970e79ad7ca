"""Adding and reading intents."""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import RequestIdReused, ResourceNotFound

from services.dispatcher.intents import store
from services.dispatcher.intents.store import IntentView, NewIntent
from shared.database import Database, Transaction

ENQUEUE = "EnqueueIntents"
ID_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Enqueue:
    """Intents to add under one request id; the digest tells another request apart."""

    tenant: str
    request_id: str
    digest: bytes
    intents: Sequence[NewIntent]


class IntentOperations:
    """Intents on one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def enqueue(self, command: Enqueue) -> list[int]:
        """Adds all or none; a repeated request id gets the first answer.

        Raises RequestIdReused when the id was used for another request.
        """
        return await self._database.run(lambda tx: _enqueue(tx, command))

    async def get(self, tenant: str, intent_id: int) -> IntentView:
        """One intent; raises ResourceNotFound, for another tenant's too (X8)."""
        found = await self._database.read(
            lambda tx: store.view(tx, tenant=tenant, intent_id=intent_id)
        )
        if found is None:
            raise ResourceNotFound(kind="intent", name=str(intent_id))
        return found


async def _enqueue(tx: Transaction, command: Enqueue) -> list[int]:
    tenant, request_id = command.tenant, command.request_id
    if not await store.claim_request(
        tx, tenant=tenant, method=ENQUEUE, request_id=request_id, digest=command.digest
    ):
        return await _first_answer(tx, command)
    intent_ids = await store.add_intents(tx, tenant=tenant, intents=command.intents)
    due = [
        (intent_id, intent.not_before)
        for intent_id, intent in zip(intent_ids, command.intents, strict=True)
        if intent.not_before is not None
    ]
    scheduled = {intent_id for intent_id, _ in due}
    at_once = [intent_id for intent_id in intent_ids if intent_id not in scheduled]
    if at_once:
        await store.line_up(tx, tenant=tenant, intent_ids=at_once)
    if due:
        await store.schedule(tx, tenant=tenant, due=due)
    await store.answer_request(
        tx, tenant=tenant, method=ENQUEUE, request_id=request_id, response=_packed(intent_ids)
    )
    return intent_ids


async def _first_answer(tx: Transaction, command: Enqueue) -> list[int]:
    stored = await store.stored_answer(
        tx, tenant=command.tenant, method=ENQUEUE, request_id=command.request_id
    )
    if stored is None or stored.digest != command.digest:
        raise RequestIdReused(request_id=command.request_id)
    return _unpacked(stored.response)


def _packed(intent_ids: Sequence[int]) -> bytes:
    return b"".join(intent_id.to_bytes(ID_BYTES, "big") for intent_id in intent_ids)


def _unpacked(response: bytes) -> list[int]:
    return [
        int.from_bytes(response[start : start + ID_BYTES], "big")
        for start in range(0, len(response), ID_BYTES)
    ]
