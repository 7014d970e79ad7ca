"""Goal: a client shows its certificate where it is asked for one, and a new one without a restart.

Method: a dispatcher that asks every caller for a certificate and notes the name in it.
"""

import asyncio
import logging
import os
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from fencepost import Run, Worker
from fencepost.channel import ChannelSettings, connect
from fencepost.dispatcher.v1 import work_pb2, work_pb2_grpc
from fencepost.environment import VARIABLES
from fencepost.errors import FencepostError
from fencepost.tls import CertificateUnreadableError, Tls, TlsFiles
from grpc import aio

from tests.shared.rpc.certificates import Authority
from tests.waiting import until


class Dispatcher(work_pb2_grpc.DispatchServiceServicer):
    """Notes who calls; a wake of the queue `slow` is answered when `answering` is set."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.address = ""
        self.callers: list[str] = []
        self.answering = asyncio.Event()

    async def Work(  # noqa: N802
        self,
        request_iterator: Any,  # noqa: ARG002
        context: Any,
    ) -> AsyncIterator[work_pb2.WorkResponse]:
        self._note(context)
        nothing: tuple[work_pb2.WorkResponse, ...] = ()
        for response in nothing:
            yield response

    async def FetchPayload(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise NotImplementedError

    async def Wake(self, request: Any, context: Any) -> work_pb2.WakeResponse:  # noqa: N802
        self._note(context)
        if "slow" in request.queues:
            await self.answering.wait()
        return work_pb2.WakeResponse()

    def _note(self, context: Any) -> None:
        self.callers.append(context.auth_context()["x509_common_name"][0].decode())


@asynccontextmanager
async def dispatching() -> AsyncIterator[Dispatcher]:
    authority = Authority()
    server, dispatcher = aio.server(), Dispatcher(authority)
    work_pb2_grpc.add_DispatchServiceServicer_to_server(dispatcher, server)
    own = authority.sign("dispatcher")
    credentials = grpc.ssl_server_credentials(
        [(own.key, own.certificate)], authority.certificate, require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    dispatcher.address = f"127.0.0.1:{port}"
    await server.start()
    yield dispatcher
    await server.stop(None)


class Own:
    """A client's files."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.ca, self.certificate, self.key = (
            folder / name for name in ("ca.pem", "client.pem", "client.key")
        )
        self.authority = authority
        self.ca.write_bytes(authority.certificate)

    def hold(self, name: str) -> TlsFiles:
        """A new certificate of this name."""
        signed = self.authority.sign(name)
        self.key.write_bytes(signed.key)
        self.certificate.write_bytes(signed.certificate)
        return TlsFiles(ca=self.ca, certificate=self.certificate, key=self.key)


async def wake(stub: "work_pb2_grpc.DispatchServiceAsyncStub", queue: str = "reviews") -> None:
    await stub.Wake(work_pb2.WakeRequest(queues=[queue]), timeout=5.0)


@pytest.mark.guarantee("X2")
async def test_a_new_certificate_is_shown_from_the_next_call_on(tmp_path: Path) -> None:
    async with dispatching() as dispatcher:
        own = Own(tmp_path, dispatcher.authority)
        settings = ChannelSettings(target=dispatcher.address, tls=own.hold("old"))
        async with connect(settings) as channel:
            stub = work_pb2_grpc.DispatchServiceStub(channel)
            await wake(stub)
            slow = asyncio.create_task(wake(stub, "slow"))
            await until(lambda: len(dispatcher.callers) == 2, what="the slow call to arrive")
            before = weakref.ref(channel._inner)
            own.hold("new")
            await wake(stub)
            dispatcher.answering.set()
            await slow
            # gRPC closes a channel when it is collected.
            await until(lambda: before() is None, what="the old connection to be let go")
    assert dispatcher.callers == ["old", "old", "new"]


async def test_a_new_certificate_that_cannot_be_read_leaves_the_old_one_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with dispatching() as dispatcher:
        own = Own(tmp_path, dispatcher.authority)
        settings = ChannelSettings(target=dispatcher.address, tls=own.hold("old"))
        async with connect(settings) as channel:
            stub = work_pb2_grpc.DispatchServiceStub(channel)
            own.key.write_bytes(b"no key")
            with caplog.at_level(logging.ERROR, "fencepost.channel"):
                await wake(stub)
                await wake(stub)
            own.hold("new")
            await wake(stub)
    assert dispatcher.callers == ["old", "old", "new"]
    [told] = caplog.messages
    assert "the old one stays" in told
    assert "client.key are not a certificate chain and its key" in told


@pytest.mark.guarantee("X2")
async def test_a_worker_shows_the_certificate_that_its_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dispatching() as dispatcher:
        own = Own(tmp_path, dispatcher.authority)
        own.hold("bot")
        monkeypatch.setenv("FENCEPOST_DISPATCHER", dispatcher.address)
        monkeypatch.setenv("FENCEPOST_CA_FILE", str(own.ca))
        monkeypatch.setenv("FENCEPOST_CERTIFICATE_FILE", str(own.certificate))
        monkeypatch.setenv("FENCEPOST_CERTIFICATE_KEY_FILE", str(own.key))
        worker = Worker.from_environment(queues=["reviews"])

        @worker.handle
        async def handler(_run: Run) -> None:
            return None

        working = asyncio.create_task(worker.run())
        await until(lambda: dispatcher.callers, what="the worker to call")
        worker.stop()
        await working
    assert set(dispatcher.callers) == {"bot"}


async def test_files_that_are_missing_or_do_not_fit_are_told_at_once(tmp_path: Path) -> None:
    own = Own(tmp_path, Authority())
    files = own.hold("client")
    own.key.write_bytes(Authority().sign("another").key)
    with pytest.raises(CertificateUnreadableError, match=r"client\.pem and .*client\.key are not"):
        connect(ChannelSettings(target="127.0.0.1:1", tls=files))
    own.ca.unlink()
    with pytest.raises(CertificateUnreadableError, match=r"ca\.pem cannot be read"):
        connect(ChannelSettings(target="127.0.0.1:1", tls=files))
    with pytest.raises(ValueError, match="belong together"):
        TlsFiles(certificate=own.certificate)


async def test_without_a_certificate_nobody_is_answered() -> None:
    async with dispatching() as dispatcher:
        tls = Tls(ca=dispatcher.authority.certificate)
        async with connect(ChannelSettings(target=dispatcher.address, tls=tls)) as channel:
            with pytest.raises(FencepostError):
                await wake(work_pb2_grpc.DispatchServiceStub(channel))
    assert dispatcher.callers == []


class Asked(dict[str, str]):
    """An environment that notes what is looked up."""

    def __init__(self, **variables: str) -> None:
        super().__init__(variables)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def test_a_worker_reads_what_is_listed_for_it_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(FENCEPOST_DISPATCHER="127.0.0.1:1")
    monkeypatch.setattr(os, "environ", asked)
    Worker.from_environment(queues=["reviews"])
    ours = {name for name in asked.names if name.startswith("FENCEPOST_")}
    assert ours == {variable.name for variable in VARIABLES if variable.worker}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("FENCEPOST_CERTIFICATE_FILE", "x.pem", "FENCEPOST_CERTIFICATE_KEY_FILE belong together"),
        ("FENCEPOST_CALL_PLAINTEXT", "ture", "'ture', but must be true or false"),
    ],
)
def test_a_wrong_variable_of_a_worker_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv("FENCEPOST_DISPATCHER", "127.0.0.1:1")
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=sentence):
        Worker.from_environment(queues=["reviews"])
