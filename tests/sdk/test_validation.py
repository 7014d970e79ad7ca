"""Goal: a broken rule is named by the path a caller would write (X4).

Method: messages of the contracts, each with one thing wrong.
"""

import pytest
from fencepost.common.v1.key_pb2 import Fence
from fencepost.dispatcher.v1.intents_pb2 import EnqueueIntentsRequest, NewIntent
from fencepost.dispatcher.v1.work_pb2 import Credit, Hello, Settle, WorkRequest
from fencepost.errors import FieldInvalid
from fencepost.validation import check, violations
from google.protobuf.message import Message

SESSION_ID = "9b2f1c7e-52fb-4a3c-8a46-3c4a2f3a7f01"


def intents() -> EnqueueIntentsRequest:
    return EnqueueIntentsRequest(request_id="r", intents=[NewIntent(), NewIntent(queue="Q")])


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("message", "field"),
    [
        (EnqueueIntentsRequest(), "request_id"),
        (WorkRequest(credit=Credit(dispatches=0)), "credit.dispatches"),
        (intents(), "intents[0].queue"),
        (intents(), "intents[1].queue"),
        (Settle(intent_id=1), "fence"),
        (Settle(intent_id=1), "outcome"),
        (Settle(intent_id=1, fence=Fence(epoch=-1)), "fence.epoch"),
        (Hello(session_id="no", queues=["q"]), "session_id"),
        (Hello(session_id=SESSION_ID, queues=["q", "Q"]), "queues[1]"),
        (Hello(session_id=SESSION_ID, queues=["q"], labels={"": "x"}), "labels['']"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_broken_field_is_named(message: Message, field: str) -> None:
    with pytest.raises(FieldInvalid) as refused:
        check(message)
    assert field in [name for name, _ in refused.value.violations]
    assert list(refused.value.violations) == violations(message)
    assert all(sentence for _, sentence in refused.value.violations)


def test_a_good_message_passes() -> None:
    hello = Hello(session_id=SESSION_ID, queues=["reviews"], labels={"zone": "a"})
    assert violations(hello) == []
    check(hello)


def test_an_item_of_a_frame_is_validated_by_itself_and_their_number_with_the_frame() -> None:
    assert violations(WorkRequest(settles=[Settle()])) == []
    [broken] = violations(WorkRequest(settles=[Settle()] * 1001))
    assert broken.field == "settles"
