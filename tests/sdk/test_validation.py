"""Goal: a broken rule is named by the path a caller would write (X4).

Method: messages of the contracts, each with one thing wrong.
"""

import pytest
from fencepost.dispatcher.v1.intents_pb2 import EnqueueIntentsRequest
from fencepost.dispatcher.v1.work_pb2 import Credit, Hello, Settle, WorkRequest
from fencepost.errors import FieldInvalid
from fencepost.validation import check, violations
from google.protobuf.message import Message

SESSION_ID = "9b2f1c7e-52fb-4a3c-8a46-3c4a2f3a7f01"


def settles() -> WorkRequest:
    return WorkRequest(settles=[Settle(item_id=1), Settle(item_id=2)])


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("message", "field"),
    [
        (EnqueueIntentsRequest(), "request_id"),
        (WorkRequest(credit=Credit(dispatches=0)), "credit.dispatches"),
        (settles(), "settles[1].intent_id"),
        (settles(), "settles[0].fence"),
        (settles(), "settles[0].outcome"),
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
