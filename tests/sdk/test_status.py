"""Goal: an error crosses the wire as itself, whatever its size or origin.

Method: every class is turned into its bytes and back; statuses that this version does not know,
or that were never ours, become the generic error of their code.
"""

import grpc
import pytest
from fencepost.errors import (
    DeadlineTooShort,
    FencepostError,
    FieldInvalid,
    Refusal,
    ResourceNotFound,
)
from fencepost.metadata import STATUS_DETAILS
from fencepost.status import STATUS_BYTES_MAX, from_rpc_error, from_status, to_status
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, ResourceInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc.aio import AioRpcError, Metadata

from tests.sdk.error_samples import SAMPLES

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def rpc_error(
    code: grpc.StatusCode, details: str = "", status: Status | None = None
) -> AioRpcError:
    trailing = Metadata()
    if status is not None:
        trailing.add(STATUS_DETAILS, status.SerializeToString())
    return AioRpcError(code, Metadata(), trailing, details)


def unknown_status(reason: str = "MOON_TOO_FULL", domain: str = "fencepost") -> Status:
    status = Status(code=UNAVAILABLE.value[0], message="Not tonight.")
    status.details.add().Pack(ErrorInfo(domain=domain, reason=reason))
    return status


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: error.reason)
def test_every_class_survives_the_wire_with_its_fields(error: Refusal) -> None:
    sent = Status.FromString(to_status(error).SerializeToString())
    restored = from_status(sent)
    assert type(restored) is type(error)
    assert vars(restored) == vars(error)
    assert from_rpc_error(rpc_error(error.code, error.message, sent)).args == error.args


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: error.reason)
def test_a_retriable_error_says_when_to_call_again(error: Refusal) -> None:
    delay = RetryInfo()
    assert any(each.Unpack(delay) for each in to_status(error).details) == error.retriable
    assert delay.retry_delay.ToMilliseconds() == (1234 if error.retriable else 0)


def test_fields_and_resources_are_named_the_way_google_rpc_names_them() -> None:
    request, resource = BadRequest(), ResourceInfo()
    field_error = FieldInvalid(violations=[("key.repo_id", "must be greater than 0")])
    assert any(each.Unpack(request) for each in to_status(field_error).details)
    assert request.field_violations[0].field == "key.repo_id"
    not_found = ResourceNotFound(kind="intent", name="42")
    assert any(each.Unpack(resource) for each in to_status(not_found).details)
    assert (resource.resource_type, resource.resource_name) == ("intent", "42")


def test_a_status_stays_small_however_much_is_wrong() -> None:
    huge = FieldInvalid(violations=[(f"labels['{'ü' * 900}']", "x" * 9000)] * 1000)
    status = to_status(huge)
    assert status.ByteSize() <= STATUS_BYTES_MAX
    restored = from_status(status)
    assert isinstance(restored, FieldInvalid)
    assert restored.violations[0][0].startswith("labels['ü")


@pytest.mark.parametrize(
    "status",
    [
        unknown_status(),
        unknown_status(reason="OVERLOADED", domain="elsewhere.example"),
        Status(code=UNAVAILABLE.value[0], message="Not tonight."),
    ],
    ids=["unknown reason", "another domain", "no details"],
)
def test_what_is_not_known_is_the_generic_error_of_its_code(status: Status) -> None:
    error = from_status(status)
    assert type(error) is FencepostError
    assert (error.code, error.retriable, str(error)) == (UNAVAILABLE, True, "Not tonight.")


def test_a_known_reason_without_its_fields_is_the_generic_error() -> None:
    status = Status(code=grpc.StatusCode.ABORTED.value[0], message="Lost.")
    status.details.add().Pack(
        ErrorInfo(domain="fencepost", reason="LEASE_LOST", metadata={"epoch": "many", "key": "k"})
    )
    error = from_status(status)
    assert type(error) is FencepostError
    assert (error.reason, error.code) == ("LEASE_LOST", grpc.StatusCode.ABORTED)
    assert Status.FromString(to_status(error).SerializeToString()) == to_status(from_status(status))


def test_a_deadline_that_the_channel_saw_is_the_same_class_as_the_servers() -> None:
    error = from_rpc_error(rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
    assert isinstance(error, DeadlineTooShort)


def test_a_failure_of_the_channel_keeps_its_code_and_text() -> None:
    error = from_rpc_error(rpc_error(UNAVAILABLE, "connection refused"))
    assert (error.code, error.retriable, str(error)) == (UNAVAILABLE, True, "connection refused")


def test_details_that_contradict_the_code_are_not_believed() -> None:
    sent = to_status(ResourceNotFound(kind="intent", name="42"))
    error = from_rpc_error(rpc_error(grpc.StatusCode.INTERNAL, "broken proxy", sent))
    assert (error.code, str(error)) == (grpc.StatusCode.INTERNAL, "broken proxy")
    garbage = rpc_error(grpc.StatusCode.NOT_FOUND, "gone")
    assert garbage.trailing_metadata() is not None
    garbage.trailing_metadata().add(STATUS_DETAILS, b"\xff\xff")
    assert str(from_rpc_error(garbage)) == "gone"
