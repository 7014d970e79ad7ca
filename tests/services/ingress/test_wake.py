"""Wakes: every address hears of new work, none is waited for, and a lost one is counted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from fencepost.dispatcher.v1 import work_pb2, work_pb2_grpc
from fencepost.errors import FencepostError
from fencepost.tls import CertificateUnreadableError
from grpc import aio
from pydantic import SecretStr
from structlog.testing import capture_logs

from services.ingress.settings import IngressSettings
from services.ingress.wake_client import Resolver, Waker
from shared.embedded.server import free_port
from shared.metrics import REGISTRY
from tests.services.ingress.pulls import settings_of
from tests.shared.rpc.certificates import Authority
from tests.waiting import until

KEY = "fp_0123456789abcdef_" + "s" * 43


class Dispatcher(work_pb2_grpc.DispatchServiceServicer):
    """Hears wakes, and notes by which key; `answering` holds the answers back."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []
        self.authorizations: set[str] = set()
        self.answering = asyncio.Event()
        self.answering.set()

    def Work(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        raise NotImplementedError

    async def FetchPayload(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise NotImplementedError

    async def Wake(self, request: Any, context: Any) -> work_pb2.WakeResponse:  # noqa: N802
        self.heard.append(tuple(request.queues))
        self.authorizations.add(dict(context.invocation_metadata())["authorization"])
        await self.answering.wait()
        return work_pb2.WakeResponse()


@asynccontextmanager
async def dispatching(
    host: str = "127.0.0.1", *, clients: Authority | None = None
) -> AsyncIterator[tuple[Dispatcher, str]]:
    """With `clients`, every caller must show a certificate of theirs; the server's is of it too."""
    server, dispatcher = aio.server(), Dispatcher()
    work_pb2_grpc.add_DispatchServiceServicer_to_server(dispatcher, server)
    if clients is None:
        port = server.add_insecure_port(f"{host}:0")
    else:
        own = clients.sign("dispatcher")
        pair = (own.key, own.certificate)
        asks = grpc.ssl_server_credentials([pair], clients.certificate, require_client_auth=True)
        port = server.add_secure_port(f"{host}:0", asks)
    await server.start()
    family = "ipv6" if "[" in host else "ipv4"
    yield dispatcher, f"{family}:{host}:{port}"
    await server.stop(None)


def settings(**changes: Any) -> IngressSettings:
    return settings_of("postgresql://nobody@127.0.0.1:1/none", api_key=SecretStr(KEY), **changes)


@asynccontextmanager
async def waking(*addresses: str, **changes: Any) -> AsyncIterator[Waker]:
    async def resolve(host: str, port: int) -> list[str]:
        assert (host, port) == ("127.0.0.1", 7102)
        return list(addresses)

    waker = Waker(settings(**changes), resolve)
    yield waker
    await waker.close()


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("dispatcher_wakes_total", {"outcome": outcome}) or 0


async def test_every_address_hears_of_every_queue_once() -> None:
    async with (
        dispatching() as (one, first),
        dispatching("[::1]") as (other, second),
        waking(first, second) as waker,
    ):
        heard = counted("heard")
        for queue in ("reviews", "fixes", "reviews"):
            waker.wake(queue)
        assert await waker.tick() is False
        assert one.heard == other.heard == [("fixes", "reviews")]
        assert one.authorizations == {f"Bearer {KEY}"}
        assert counted("heard") == heard + 2
        assert await waker.tick() is False
        assert len(one.heard) == 1


async def test_one_that_does_not_hear_keeps_no_other_from_it() -> None:
    async with (
        dispatching() as (one, first),
        waking(f"ipv4:127.0.0.1:{free_port()}", first) as waker,
    ):
        lost, heard = counted("lost"), counted("heard")
        waker.wake("reviews")
        with pytest.raises(FencepostError):
            await waker.tick()
        assert one.heard == [("reviews",)]
        assert (counted("lost"), counted("heard")) == (lost + 1, heard + 1)


async def test_one_that_does_not_answer_is_given_up_in_time() -> None:
    async with dispatching() as (one, first), waking(first, wake_timeout_ms=100) as waker:
        one.answering.clear()
        waker.wake("reviews")
        with pytest.raises(FencepostError, match="deadline"):
            await waker.tick()


@pytest.mark.guarantee("X2")
async def test_a_dispatcher_that_asks_for_a_certificate_is_shown_ours(tmp_path: Path) -> None:
    authority = Authority()
    own = authority.sign("ingress")
    files = {
        "dispatcher_tls_ca_file": (tmp_path / "ca.pem", authority.certificate),
        "dispatcher_tls_certificate_file": (tmp_path / "ingress.pem", own.certificate),
        "dispatcher_tls_key_file": (tmp_path / "ingress.key", own.key),
    }
    for path, content in files.values():
        path.write_bytes(content)
    named = {name: path for name, (path, _) in files.items()}
    async with dispatching(clients=authority) as (one, first), waking(first, **named) as waker:
        waker.wake("reviews")
        assert await waker.tick() is False
    assert one.heard == [("reviews",)]


@pytest.mark.guarantee("X2")
async def test_without_one_the_log_names_the_setting_that_is_missing(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    trusted = {"dispatcher_tls_ca_file": tmp_path / "ca.pem"}
    async with dispatching(clients=authority) as (one, first), waking(first, **trusted) as waker:
        with capture_logs() as logs:
            waker.ticker.start()
            waker.wake("reviews")
            await until(lambda: logs, what="the refusal to be told")
            await waker.ticker.stop()
    assert one.heard == []
    assert logs[0]["why"].endswith(
        "if the dispatcher asks callers for a certificate, set "
        "INGRESS_DISPATCHER_TLS_CERTIFICATE_FILE and INGRESS_DISPATCHER_TLS_KEY_FILE"
    )


async def test_certificates_that_cannot_be_read_are_told_at_the_start_and_later(
    tmp_path: Path,
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(Authority().certificate)
    async with waking("ipv4:127.0.0.1:1", dispatcher_tls_ca_file=file) as waker:
        file.write_bytes(b"no authorities")
        waker.wake("reviews")
        with pytest.raises(FencepostError, match="holds no authorities"):
            await waker.tick()
    with pytest.raises(CertificateUnreadableError, match="holds no authorities"):
        Waker(settings(dispatcher_tls_ca_file=file))


async def test_noting_a_queue_waits_for_nothing_and_the_ticker_sends_it() -> None:
    async with dispatching() as (one, first), waking(first) as waker:
        waker.ticker.start()
        one.answering.clear()
        waker.wake("reviews")
        waker.wake("fixes")
        assert one.heard == []
        one.answering.set()
        await until(lambda: len(set().union(*one.heard)) == 2, what="both queues to be heard of")
        await waker.ticker.stop()


async def test_more_queues_than_fit_one_wake_take_several() -> None:
    async with dispatching() as (one, first), waking(first) as waker:
        for number in range(150):
            waker.wake(f"queue-{number}")
        assert [await waker.tick(), await waker.tick()] == [True, False]
        assert [len(queues) for queues in one.heard] == [100, 50]


async def test_a_name_without_an_address_is_counted() -> None:
    waker = Waker(settings(dispatcher_address="no-such-host.invalid:7102"))
    lost = counted("lost")
    waker.wake("reviews")
    with pytest.raises(FencepostError, match=r"no-such-host\.invalid"):
        await waker.tick()
    assert counted("lost") == lost + 1


async def test_a_name_is_resolved_to_all_its_addresses() -> None:
    resolve = Resolver()
    for _ in range(2):
        assert await resolve("127.0.0.1", 7102) == ["ipv4:127.0.0.1:7102"]
        assert await resolve("::1", 7102) == ["ipv6:[::1]:7102"]
