"""Adding and reading intents."""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import RequestIdReused, ResourceNotFound

from services.dispatcher.intents import store
from services.dispatcher.intents.store import IntentView, NewIntent, StoredAnswer
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
    tenant, intents = command.tenant, command.intents
    intent_ids = await store.draw_intent_ids(tx, count=len(intents))
    answer = StoredAnswer(command.digest, _packed(intent_ids))
    if not await store.claim_request(
        tx, answer, tenant=tenant, method=ENQUEUE, request_id=command.request_id
    ):
        return await _first_answer(tx, command)
    added = list(zip(intent_ids, intents, strict=True))
    await store.add_intents(tx, tenant=tenant, intents=added)
    if at_once := [intent_id for intent_id, intent in added if intent.not_before is None]:
        await store.line_up(tx, tenant=tenant, intent_ids=at_once)
    if due := [(number, intent.not_before) for number, intent in added if intent.not_before]:
        await store.schedule(tx, tenant=tenant, due=due)
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
