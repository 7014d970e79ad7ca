"""The channel that every client of the suite uses: one place for addresses, TLS and waiting.

It sets a deadline on every unary call, sends the key, the tenant and the trace context, validates
requests before they leave and raises the server's own error classes. gRPC itself retries
UNAVAILABLE, and only for methods that the service configs beside the contracts name: those with a
natural key or a stored request id, and never a publish call (P3).
"""

import ipaddress
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message
from grpc import aio

import fencepost
from fencepost.calls import (
    Metadata,
    Pairs,
    SessionCall,
    UnaryCall,
    call_metadata,
    checked,
)
from fencepost.errors import FieldInvalid
from fencepost.metadata import AUTHORIZATION, BEARER, TENANT
from fencepost.tls import CertificateUnreadableError, Tls, TlsFiles, TlsWatch
from fencepost.validation import check

Request = TypeVar("Request")
Response = TypeVar("Response")
Serializer = Callable[[Request], bytes]
Deserializer = Callable[[bytes], Response]

MIB = 1024 * 1024
RECONNECT_BACKOFF_MS_MAX: Final = 4_000
"""So that a session is back within five seconds, jitter included, once a server listens again."""

KEEPALIVE_MS: Final = 10_000
PING_TIMEOUT_MS: Final = 4_000
"""A peer that vanished without a word is noticed after both, before the grace is over."""

NO_STREAM_ONE_WAY: Final = "the contracts have no call that streams one way only"

log = logging.getLogger("fencepost.channel")

SERVICES: Final = ("common", "ingress", "dispatcher", "publisher", "watchdog")


@dataclass(frozen=True, kw_only=True)
class ChannelSettings:
    """How to reach one service.

    `target` is host:port, or a gRPC name with a scheme. Loopback is plain unless `tls` is given;
    anything else is TLS unless `allow_plaintext`. `TlsFiles` are followed: new ones count from the
    next call on. `server_name` is the name in the server's certificate, for a target that is a
    bare address. Without `retries` the first answer counts, for callers who would rather know.
    """

    target: str
    api_key: str | None = field(default=None, repr=False)
    tenant: str | None = None
    tls: Tls | TlsFiles | None = None
    allow_plaintext: bool = False
    server_name: str = ""
    deadline_ms: int = 10_000
    message_limit_bytes: int = 32 * MIB
    retries: bool = True


def connect(settings: ChannelSettings) -> "Channel":
    """A channel to the service; it connects by itself, now and after every loss.

    Raises CertificateUnreadableError.
    """
    if is_plain(settings):
        target, options = _with_scheme(settings.target), _options(settings)
        return Channel(aio.insecure_channel(target, options=options), settings)
    if isinstance(settings.tls, TlsFiles):
        return Channel(_Followed(TlsWatch(settings.tls), settings), settings)
    return Channel(_secure_channel(settings, settings.tls or Tls()), settings)


def is_plain(settings: ChannelSettings) -> bool:
    """Whether the channel goes without TLS."""
    local = _is_local(_with_scheme(settings.target))
    return settings.tls is None and (settings.allow_plaintext or local)


def _secure_channel(settings: ChannelSettings, tls: Tls) -> aio.Channel:
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    target = _with_scheme(settings.target)
    return aio.secure_channel(target, credentials, options=_options(settings))


def _options(settings: ChannelSettings) -> list[tuple[str, str | int]]:
    options = channel_options(settings)
    if settings.server_name:
        options.append(("grpc.ssl_target_name_override", settings.server_name))
    return options


def channel_options(settings: ChannelSettings) -> list[tuple[str, str | int]]:
    """gRPC's own knobs, all times in ms."""
    return [
        ("grpc.service_config", service_config()),
        ("grpc.enable_retries", int(settings.retries)),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.primary_user_agent", f"fencepost-python/{fencepost.__version__}"),
        ("grpc.max_send_message_length", settings.message_limit_bytes),
        ("grpc.max_receive_message_length", settings.message_limit_bytes),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        # gRPC's keepalive_timeout_ms does not bound the wait for a ping's answer.
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.initial_reconnect_backoff_ms", 200),
        # Also the time that one attempt to connect gets.
        ("grpc.min_reconnect_backoff_ms", 2_000),
        ("grpc.max_reconnect_backoff_ms", RECONNECT_BACKOFF_MS_MAX),
        # gRPC's 30 s would hide a replica that came back under another address.
        ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    ]


@cache
def service_config() -> str:
    """One service config for all services: methods are named in full, so they do not collide."""
    parts = [
        json.loads(files(fencepost).joinpath(name, "v1", "service_config.json").read_text())
        for name in SERVICES
    ]
    merged = parts[0] | {"methodConfig": [each for part in parts for each in part["methodConfig"]]}
    return json.dumps(merged)


def _with_scheme(target: str) -> str:
    scheme, separator, _ = target.partition(":")
    has_scheme = separator and scheme in {"dns", "ipv4", "ipv6", "unix", "unix-abstract", "xds"}
    return target if has_scheme else f"dns:///{target}"


def _is_local(target: str) -> bool:
    scheme, _, rest = target.partition(":")
    if scheme.startswith("unix"):
        return True
    hosts = [_host(address) for address in rest.rpartition("/")[2].split(",")]
    return all(host == "localhost" or _is_loopback(host) for host in hosts)


def _host(address: str) -> str:
    return address.partition("]")[0][1:] if address.startswith("[") else address.partition(":")[0]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Followed:
    """The channel inside, opened anew before a call when the files of its certificate changed.

    Calls under way stay on the connection that they began on, which closes after the last one:
    gRPC closes a channel that nobody knows any more, and breaks no call by it.
    """

    def __init__(self, watch: TlsWatch, settings: ChannelSettings) -> None:
        self._watch, self._settings = watch, settings
        self._senders: dict[str, Callable[..., Any]] = {}
        self.inner = _secure_channel(settings, watch.first)

    def renewed(self) -> aio.Channel:
        """The channel for the next call."""
        try:
            tls = self._watch.changed()
        except CertificateUnreadableError as error:
            log.error("the new certificate cannot be read, the old one stays: %s", error)
            return self.inner
        if tls is not None:
            self.inner = _secure_channel(self._settings, tls)
            self._senders.clear()
            log.info("a new certificate is shown to %s", self._settings.target)
        return self.inner

    def sender(self, method: str, make: Callable[[aio.Channel], Any]) -> Callable[..., Any]:
        """Sends each call of the method over the channel of its time."""

        def sent(*request: Any, **options: Any) -> Any:
            inner = self.renewed()
            if method not in self._senders:
                self._senders[method] = make(inner)
            return self._senders[method](*request, **options)

        return sent


class Channel(aio.Channel):
    """A grpc.aio channel for the generated stubs, with what every call needs built in."""

    def __init__(self, wire: aio.Channel | _Followed, settings: ChannelSettings) -> None:
        self._wire = wire
        self._deadline_s = settings.deadline_ms / 1000
        self._metadata = _own_metadata(settings)

    @property
    def _inner(self) -> aio.Channel:
        return self._wire.inner if isinstance(self._wire, _Followed) else self._wire

    def _sender(self, method: str, make: Callable[[aio.Channel], Any]) -> Any:
        if isinstance(self._wire, _Followed):
            return self._wire.sender(method, make)
        return make(self._wire)

    def unary_unary(
        self,
        method: str,
        request_serializer: Serializer[Request] | None = None,
        response_deserializer: Deserializer[Response] | None = None,
        **stub: Any,
    ) -> aio.UnaryUnaryMultiCallable[Request, Response]:
        made = (method, request_serializer, response_deserializer)
        send = self._sender(method, lambda inner: inner.unary_unary(*made, **stub))
        return _Unary(send, self._metadata, self._deadline_s)

    def stream_stream(
        self,
        method: str,
        request_serializer: Serializer[Request] | None = None,
        response_deserializer: Deserializer[Response] | None = None,
        **stub: Any,
    ) -> aio.StreamStreamMultiCallable[Request, Response]:
        made = (method, request_serializer, response_deserializer)
        send = self._sender(method, lambda inner: inner.stream_stream(*made, **stub))
        return _Session(send, self._metadata)

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{method}: {NO_STREAM_ONE_WAY}")

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{method}: {NO_STREAM_ONE_WAY}")

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:  # noqa: FBT001, FBT002  (grpc.aio's own signature)
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._inner.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._inner.channel_ready()

    async def close(self, grace: float | None = None) -> None:
        await self._inner.close(grace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self._inner.close(None)


def _own_metadata(settings: ChannelSettings) -> Pairs:
    pairs: list[tuple[str, str | bytes]] = []
    if settings.api_key:
        pairs.append((AUTHORIZATION, BEARER + settings.api_key))
    if settings.tenant:
        pairs.append((TENANT, settings.tenant))
    return tuple(pairs)


class _Unary(aio.UnaryUnaryMultiCallable[Request, Response]):
    def __init__(
        self,
        send: aio.UnaryUnaryMultiCallable[Request, Response],
        metadata: Pairs,
        deadline_s: float,
    ) -> None:
        self._send, self._metadata, self._deadline_s = send, metadata, deadline_s

    def __call__(
        self,
        request: Request,
        *,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **options: Any,
    ) -> aio.UnaryUnaryCall[Request, Response]:
        check(cast(Message, request))
        timeout_s = self._deadline_s if timeout is None else timeout
        pairs = call_metadata(self._metadata, metadata)
        return UnaryCall(self._send(request, timeout=timeout_s, metadata=pairs, **options))


class _Session(aio.StreamStreamMultiCallable[Request, Response]):
    def __init__(
        self, send: aio.StreamStreamMultiCallable[Request, Response], metadata: Pairs
    ) -> None:
        self._send, self._metadata = send, metadata

    def __call__(
        self,
        request_iterator: AsyncIterator[Request] | Iterator[Request] | None = None,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,  # noqa: FBT001  (grpc.aio's own signature)
        compression: grpc.Compression | None = None,
    ) -> aio.StreamStreamCall[Request, Response]:
        refused: list[FieldInvalid] = []
        requests = None if request_iterator is None else checked(request_iterator, refused)
        pairs = call_metadata(self._metadata, metadata)
        call = self._send(requests, timeout, pairs, credentials, wait_for_ready, compression)
        return SessionCall(call, refused)
