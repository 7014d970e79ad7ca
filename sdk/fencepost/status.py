"""Errors to google.rpc.Status and back to the same class with the same fields.

Both directions stand here side by side, so that the wire form has one home. What a detail message
of google.rpc says (BadRequest, ResourceInfo, RetryInfo) is said there; every other field travels
in ErrorInfo.metadata. A status stays small, since HTTP/2 trailers are limited.
"""

from collections.abc import Callable
from dataclasses import Field, fields
from typing import Final

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, ResourceInfo, RetryInfo
from google.rpc.status_pb2 import Status

from fencepost.errors import (
    ERROR_BY_REASON,
    DeadlineTooShort,
    FencepostError,
    FieldInvalid,
    Refusal,
    ResourceNotFound,
)
from fencepost.metadata import STATUS_DETAILS

DOMAIN: Final = "fencepost"
VIOLATIONS_MAX = 20
TEXT_BYTES_MAX = 400
STATUS_BYTES_MAX = 4096

_IN_DETAILS = {"message", "violations", "retry_after_ms"}
_DECODERS: dict[object, Callable[[str], str | int | bool]] = {
    str: str,
    int: int,
    bool: lambda text: text == "True",
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def to_status(error: FencepostError) -> Status:
    """The wire form of an error, at most STATUS_BYTES_MAX long."""
    status = Status(code=error.code.value[0], message=_short(error.message))
    if isinstance(error, Refusal):
        _pack(status, ErrorInfo(domain=DOMAIN, reason=error.reason, metadata=_metadata(error)))
        for detail in _details(error):
            _pack(status, detail)
    elif error.reason:
        _pack(status, ErrorInfo(domain=DOMAIN, reason=error.reason))
    return status


def from_status(status: Status) -> FencepostError:
    """The error that a status stands for; generic when its reason or fields are not known here."""
    info = ErrorInfo()
    _unpack(status, info)
    error_type = ERROR_BY_REASON.get(info.reason) if info.domain == DOMAIN else None
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    if error_type is not None and error_type.code is code:
        values = _values(error_type, status, info)
        if values is not None:
            return error_type(message=status.message, **values)
    return FencepostError(status.message, code=code, reason=info.reason)


def from_rpc_error(error: grpc.aio.AioRpcError) -> FencepostError:
    """The error that a failed call stands for, whether a server of ours said it or the channel."""
    status = _sent_status(error)
    if status is not None:
        return from_status(status)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineTooShort()
    return FencepostError(error.details() or error.code().name, code=error.code())


def _sent_status(error: grpc.aio.AioRpcError) -> Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == STATUS_DETAILS and isinstance(value, bytes):
            try:
                status = Status.FromString(value)
            except DecodeError:
                return None
            return status if status.code == error.code().value[0] else None
    return None


def _details(error: Refusal) -> list[Message]:
    details: list[Message] = []
    if isinstance(error, FieldInvalid):
        details.append(_bad_request(error))
    if isinstance(error, ResourceNotFound):
        details.append(ResourceInfo(resource_type=error.kind, resource_name=_short(error.name)))
    if error.retriable:
        delay = RetryInfo()
        delay.retry_delay.FromMilliseconds(vars(error)["retry_after_ms"])
        details.append(delay)
    return details


def _bad_request(error: FieldInvalid) -> BadRequest:
    request = BadRequest()
    for field, sentence in error.violations[:VIOLATIONS_MAX]:
        request.field_violations.add(field=_short(field), description=_short(sentence))
    # The sentence that sums them up and the frame around take the other quarter.
    while request.ByteSize() > STATUS_BYTES_MAX * 3 // 4:
        request.field_violations.pop()
    return request


def _metadata(error: Refusal) -> dict[str, str]:
    return {field.name: _short(str(getattr(error, field.name))) for field in _plain(type(error))}


def _values(error_type: type[Refusal], status: Status, info: ErrorInfo) -> dict[str, object] | None:
    """The constructor's arguments, or None when one is missing or not of its type."""
    values: dict[str, object] = {}
    for field in _plain(error_type):
        text = info.metadata.get(field.name)
        if text is None:
            return None
        try:
            values[field.name] = _DECODERS[field.type](text)
        except ValueError:
            return None
    return values | _detail_values(error_type, status)


def _detail_values(error_type: type[Refusal], status: Status) -> dict[str, object]:
    if error_type is FieldInvalid:
        request = BadRequest()
        _unpack(status, request)
        return {"violations": [(each.field, each.description) for each in request.field_violations]}
    if error_type.retriable:
        delay = RetryInfo()
        if _unpack(status, delay):
            return {"retry_after_ms": delay.retry_delay.ToMilliseconds()}
    return {}


def _plain(error_type: type[Refusal]) -> list[Field[object]]:
    return [field for field in fields(error_type) if field.name not in _IN_DETAILS]


def _pack(status: Status, detail: Message) -> None:
    status.details.add().Pack(detail)


def _unpack(status: Status, detail: Message) -> bool:
    return any(packed.Unpack(detail) for packed in status.details)


def _short(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= TEXT_BYTES_MAX:
        return text
    return encoded[: TEXT_BYTES_MAX - 3].decode(errors="ignore") + "..."
