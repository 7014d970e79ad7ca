"""Absurd text and absurd moments in every field of every RPC: refused by type, no fault of ours.

Each request is one that its tenant may make, with one field spoilt; none is checked before it
leaves.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from fencepost.channel import Channel
from fencepost.dispatcher.v1 import work_pb2, work_pb2_grpc
from fencepost.errors import FencepostError, Internal
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from tests.database_server import DatabaseServer
from tests.services.dispatcher.wire import Stream, fence, hello, renewal, settle
from tests.system.absurd import spoilt
from tests.system.probes import asking
from tests.system.probes.asking import Ours
from tests.system.tenants import (
    ALL_SCOPES,
    THEIRS,
    Suite,
    Theirs,
    answer,
    calling,
    rpcs,
    seed,
    suite_on,
)
from tests.system.test_tenants import PROBES

pytestmark = pytest.mark.timeout(180)

WORK = "fencepost.dispatcher.v1.DispatchService.Work"
UNARY = [name for name in rpcs() if name != WORK]

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Stage:
    """The suite, a tenant with a row in every table, and a key of its that may do everything."""

    suite: Suite
    theirs: Theirs
    key: str


async def staged(suite: Suite) -> Stage:
    theirs = await seed(suite)
    async with suite.rows(THEIRS) as rows:
        return Stage(suite, theirs, await rows.api_key(*ALL_SCOPES, tenant=THEIRS))


@pytest.fixture(scope="module")
def stage(database_server: DatabaseServer) -> Iterator[Stage]:
    for owner_url in database_server.each_database():
        with suite_on(owner_url) as suite:
            yield asyncio.run(staged(suite))


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would say so itself: here the server has to."""
    monkeypatch.setattr("fencepost.channel.check", lambda _message: None)
    monkeypatch.setattr("fencepost.calls.check", lambda _message: None)


async def requests(stage: Stage, name: str, patch: pytest.MonkeyPatch) -> list[Message]:
    """What the probes would send, which is in order for the tenant that it belongs to."""
    caught: list[Message] = []

    async def catch(_channel: Channel, _method: MethodDescriptor, request: Message) -> Message:
        caught.append(request)
        return request

    patch.setattr(asking, "answer", catch)
    method = rpcs()[name]
    [address, *_] = stage.suite.serving(method)
    async with stage.suite.rows(THEIRS) as rows:
        for probe in PROBES[name]:
            await probe.ask(Ours(rows, stage.key), stage.theirs, method, address)
    return caught


def is_fault(told: Message | FencepostError) -> bool:
    """Whether the whole answer, or that of an item of a list, is a fault of ours."""
    return isinstance(told, Internal) or Internal.reason in str(told)


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("name", UNARY)
async def test_no_absurd_field_is_a_fault(
    stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = rpcs()[name]
    faults = []
    for address in stage.suite.serving(method):
        async with calling(address, stage.key) as channel:
            for request in await requests(stage, name, monkeypatch):
                for where, absurd in spoilt(request):
                    anew(absurd, where)
                    told = await told_of(channel, method, absurd)
                    if is_fault(told):
                        faults.append((where, str(told)))
    assert faults == []


def anew(request: Any, where: str) -> None:
    """Gives it a request id of its own, lest it be the repeat of another."""
    if "request_id" in request.DESCRIPTOR.fields_by_name and where != "request_id":
        request.request_id = f"absurd-{next(_numbers)}"


async def told_of(
    channel: Channel, method: MethodDescriptor, request: Message
) -> Message | FencepostError:
    try:
        return await answer(channel, method, request)
    except FencepostError as refusal:
        return refusal


@pytest.mark.guarantee("X4")
async def test_no_absurd_hello_is_a_fault(stage: Stage) -> None:
    async with calling(stage.suite.addresses["dispatcher"], stage.key) as channel:
        for where, absurd in spoilt(hello()):
            stream = Stream(work_pb2_grpc.DispatchServiceStub(channel).Work())
            with pytest.raises(FencepostError) as refused:
                await stream.open(absurd)
            assert not is_fault(refused.value), where


def items(held: work_pb2.Dispatch) -> dict[str, work_pb2.Settle | work_pb2.Renew]:
    """What a worker may say of work, each kind of outcome with all its text."""
    fail = work_pb2.Fail(disposition=work_pb2.DISPOSITION_TRANSIENT, reason="odd")
    return {
        "fail": settle(held, fail=fail),
        "release": settle(held, release=work_pb2.Release(reason="odd")),
        "complete": settle(held),
        "renewal": renewal(held),
    }


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("kind", items(work_pb2.Dispatch()))
async def test_no_absurd_item_of_a_frame_is_a_fault(stage: Stage, kind: str) -> None:
    work = stage.theirs.work
    held = work_pb2.Dispatch(fence=fence(work), intent_id=work.intent_id)
    async with calling(stage.suite.addresses["dispatcher"], stage.key) as channel:
        stream = Stream(work_pb2_grpc.DispatchServiceStub(channel).Work())
        await stream.open()
        for where, absurd in spoilt(items(held)[kind]):
            told: Sequence[Message]
            if isinstance(absurd, work_pb2.Renew):
                told = await stream.renew(absurd)
            else:
                told = await stream.settle(absurd)
            assert not is_fault(told[0]), where
