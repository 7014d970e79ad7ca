"""Goal: reasons and classes are the same set, and each class says what to do.

Method: the contract's enum is read from its descriptor and compared with the classes.
"""

from pathlib import Path

import fencepost
import grpc
import pytest
from fencepost.common.v1 import error_reason_pb2
from fencepost.errors import (
    ERROR_BY_REASON,
    FieldInvalid,
    Internal,
    PublicationRefused,
    PublicationsHeld,
    ReconciliationRequired,
    Refusal,
)

from tests.sdk.error_samples import SAMPLES

REPOSITORY = Path(__file__).parents[2]
PREFIX = "ERROR_REASON_"


def test_every_reason_has_one_class_and_back() -> None:
    names = [value.name for value in error_reason_pb2.ErrorReason.DESCRIPTOR.values]
    reasons = {name.removeprefix(PREFIX) for name in names} - {"UNSPECIFIED"}
    assert set(ERROR_BY_REASON) == reasons
    assert len(Refusal.__subclasses__()) == len(reasons)


def test_the_codes_are_those_of_the_contract() -> None:
    for value in error_reason_pb2.ErrorReason.DESCRIPTOR.values[1:]:
        error_type = ERROR_BY_REASON[value.name.removeprefix(PREFIX)]
        assert error_type.code in grpc.StatusCode
        assert error_type.retriable == (error_type.code is grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: error.reason)
def test_the_message_is_a_sentence_made_of_the_fields(error: Refusal) -> None:
    message = str(error)
    assert message == error.message == error.args[0]
    assert message[0].isupper()
    assert ":" in message or ";" in message, "says what to do next"
    assert "{" not in message
    assert message.isascii()


def test_an_invalid_field_is_named_and_the_rest_counted() -> None:
    error = FieldInvalid(violations=[(f"field_{number}", "is empty") for number in range(5)])
    assert "field_0: is empty; field_1: is empty; field_2: is empty (and 2 more)" in str(error)
    assert error.violations[0] == ("field_0", "is empty")


def test_a_message_of_ones_own_replaces_the_sentence() -> None:
    assert str(Internal(error_id="e1", message="Something else.")) == "Something else."


def test_the_version_is_the_projects() -> None:
    pyproject = (REPOSITORY / "pyproject.toml").read_text()
    assert f'\nversion = "{fencepost.__version__}"\n' in pyproject


def test_what_was_not_published_is_told_without_blaming_the_forge() -> None:
    refused = PublicationRefused(publication_id=3, proof="never connected: ConnectError")
    assert str(refused) == (
        "Publication 3 was not published (never connected: ConnectError): "
        "mend the cause, then publish again."
    )


@pytest.mark.parametrize(
    "refusal",
    [
        ReconciliationRequired(publication_id=3, status="uncertain"),
        PublicationsHeld(hold_id=4, why="incident"),
    ],
)
def test_what_people_read_gives_no_orders_to_a_bot(refusal: Refusal) -> None:
    assert "fail the work" not in str(refusal)
