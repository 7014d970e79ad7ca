"""What the contracts say about each RPC, read from their descriptors when the server is built."""

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
from fencepost.common.v1 import access_pb2
from fencepost.errors import FencepostError, FieldInvalid
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message

Scope = access_pb2.Scope
# Messages of any RPC pass through here; each servicer's own types are checked where it is written.
Unary = Callable[[Any, Any], Coroutine[Any, Any, Message]]
Streaming = Callable[[Any, Any], AsyncGenerator[Message, None]]


FOREIGN_SERVICES = frozenset({"grpc.reflection.v1alpha.ServerReflection"})
"""Not of our contracts, so they name no scope: any valid key may call them."""

NOT_A_MESSAGE = "the request's bytes are not a message of its type"


class Handler(Protocol):
    """What generated code registers for one RPC, as grpc.aio reads it."""

    request_deserializer: Callable[[bytes], Message]
    unary_unary: Unary | None
    stream_stream: Streaming | None


class ServiceCannotBeServedError(Exception):
    """A servicer is not fit to be served; says what it lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One RPC: `name` is package.Service/Method, exactly one of the two handlers is set."""

    name: str
    scope: Scope.ValueType
    decode_message: Callable[[bytes], Message]
    unary: Unary | None = None
    streaming: Streaming | None = None

    @property
    def service(self) -> str:
        """Full name of the service."""
        return self.name.partition("/")[0]

    def decode(self, raw: bytes) -> Message:
        """The message; raises FieldInvalid when the bytes are none."""
        try:
            return self.decode_message(raw)
        except DecodeError:
            raise FieldInvalid(violations=[("request", NOT_A_MESSAGE)]) from None


class Methods:
    """The RPCs of all servicers; stands in for a server where generated code registers them."""

    def __init__(self) -> None:
        self.found: list[Method] = []

    def add(self, servicer: object) -> None:
        """Takes in the RPCs of an instance of a generated `…Servicer` class.

        Raises ServiceCannotBeServedError, for an RPC without a scope above all.
        """
        for base in type(servicer).__mro__:
            register = getattr(sys.modules[base.__module__], f"add_{base.__name__}_to_server", None)
            if register is not None:
                register(servicer, self)
                return
        raise ServiceCannotBeServedError(f"{type(servicer).__name__} extends no generated servicer")

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Not needed: the same handlers come by name, too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Called by generated code."""
        self.found += [_method(service, name, handler) for name, handler in handlers.items()]


def _method(service: str, name: str, handler: Handler) -> Method:
    full_name = f"{service}/{name}"
    unary, streaming = handler.unary_unary, handler.stream_stream
    if unary is None and streaming is None:
        raise ServiceCannotBeServedError(f"{full_name} streams one way only: that is not served")
    return Method(
        name=full_name,
        scope=_scope(service, name),
        decode_message=handler.request_deserializer,
        unary=_unary(full_name, unary) if unary else None,
        streaming=_streaming(full_name, streaming) if streaming else None,
    )


def _scope(service: str, name: str) -> Scope.ValueType:
    if service in FOREIGN_SERVICES:
        return access_pb2.SCOPE_ANY
    descriptor: MethodDescriptor = (
        descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    )
    scope = descriptor.GetOptions().Extensions[access_pb2.required_scope]
    if scope == access_pb2.SCOPE_UNSPECIFIED:
        raise ServiceCannotBeServedError(
            f"{service}/{name} names no required_scope, so anybody with a key could call it: "
            "set the option in its contract"
        )
    return scope


def _unary(full_name: str, handler: Unary) -> Unary:
    if inspect.iscoroutinefunction(handler):
        return handler
    _require_generated(full_name, handler)

    async def unimplemented(_request: object, _context: object) -> Message:
        raise _unimplemented(full_name)

    return unimplemented


def _streaming(full_name: str, handler: Streaming) -> Streaming:
    if inspect.isasyncgenfunction(handler):
        return handler
    _require_generated(full_name, handler)

    async def unimplemented(_request: object, _context: object) -> AsyncGenerator[Message, None]:
        for message in _no_messages(full_name):
            yield message

    return unimplemented


def _require_generated(full_name: str, handler: Callable[..., object]) -> None:
    """Only the generated placeholder of an RPC may be something else than asynchronous."""
    if not handler.__module__.endswith("_pb2_grpc"):
        raise ServiceCannotBeServedError(
            f"{full_name} must be a coroutine, or for a stream of answers an async generator"
        )


def _no_messages(full_name: str) -> list[Message]:
    raise _unimplemented(full_name)


def _unimplemented(full_name: str) -> FencepostError:
    return FencepostError(
        f"This server does not implement {full_name}: ask GetServerInfo for its version.",
        code=grpc.StatusCode.UNIMPLEMENTED,
    )
