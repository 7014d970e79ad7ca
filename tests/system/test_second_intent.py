"""A second intent for a key: put back while the first runs, acknowledged as a duplicate after."""

import uuid
from pathlib import Path

import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import intents_pb2
from fencepost.dispatcher.v1.intents_pb2_grpc import IntentServiceStub

from examples.demo.cast import TENANT, Cast, on_stage
from examples.demo.play import Play
from tests.waiting import until

ACTION = "container-dispatch"


class Operator:
    """An operator's view of intents, over gRPC."""

    def __init__(self, cast: Cast) -> None:
        settings = ChannelSettings(
            target=cast.suite.addresses.grpc["dispatcher"],
            api_key=cast.suite.credentials["OPERATOR_API_KEY"],
            tenant=TENANT,
        )
        self.channel = connect(settings)
        self._intents = IntentServiceStub(self.channel)

    async def enqueue(self, key: key_pb2.Key) -> int:
        """Adds one intent of the bot's for this key."""
        new = intents_pb2.NewIntent(queue="reviews", key=key, action=ACTION, payload=b"{}")
        request = intents_pb2.EnqueueIntentsRequest(request_id=str(uuid.uuid4()), intents=[new])
        return (await self._intents.EnqueueIntents(request)).intent_ids[0]

    async def intent(self, intent_id: int) -> intents_pb2.Intent:
        """Reads one."""
        request = intents_pb2.GetIntentRequest(intent_id=intent_id)
        return (await self._intents.GetIntent(request)).intent


@pytest.mark.guarantee("L5")
async def test_it_waits_without_an_attempt_and_ends_as_a_duplicate(tmp_path: Path) -> None:
    with on_stage(tmp_path, bot="tests.system.bots.waiting") as cast:
        operator = Operator(cast)
        async with operator.channel:
            first = Play(cast).post_once()
            leased = intents_pb2.INTENT_PLACE_LEASED

            async def runs() -> key_pb2.Key | None:
                intent = await operator.intent(first)
                return intent.key if intent.place == leased else None

            key = await until(runs, what="the first intent to be held by the bot")
            second = await operator.enqueue(key)

            async def waits() -> intents_pb2.Intent | None:
                intent = await operator.intent(second)
                return intent if intent.place == intents_pb2.INTENT_PLACE_WAITING else None

            put_back = await until(waits, what="the second intent to be put back")
            assert put_back.status == intents_pb2.INTENT_STATUS_OPEN
            assert put_back.attempts == 0

            cast.let_go()

            async def ended() -> intents_pb2.Intent | None:
                intent = await operator.intent(second)
                return intent if intent.status != intents_pb2.INTENT_STATUS_OPEN else None

            duplicate = await until(ended, what="the second intent to be settled")
            assert duplicate.status == intents_pb2.INTENT_STATUS_DUPLICATE
            assert duplicate.attempts == 0
            assert (await operator.intent(first)).status == intents_pb2.INTENT_STATUS_SUCCEEDED

            third = await operator.enqueue(key)

            async def acknowledged() -> bool:
                intent = await operator.intent(third)
                return intent.status == intents_pb2.INTENT_STATUS_DUPLICATE

            await until(acknowledged, what="a third intent to be acknowledged at once")
