"""Goal: a worker ends when it is told to, in time, with what it holds finished or given back.

Method: bots as processes of their own, ended by signals; keys revoked under a running worker.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fencepost import Run, Worker
from fencepost.errors import FencepostError, KeyRevoked, KeyUnknown, ScopeMissing

from tests.database_server import as_service
from tests.rows import NOW, Row, Work
from tests.sdk.worker.bench import Bench, network_to
from tests.sdk.worker.conftest import DISPATCHER
from tests.service_process import OWN_CODE, ROOT, service_process_beside
from tests.waiting import until

EXIT_WITHIN_S = 10.0


@contextmanager
def bot(bench: Bench, manner: str, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A stubborn bot; what it wrote is in tmp_path / "log"."""
    key_file = tmp_path / "key"
    key_file.write_text(f"{bench.api_key}\n")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.sdk.worker.stubborn_bot", manner, str(tmp_path / "end")],
            cwd=ROOT,
            env={
                **OWN_CODE,
                "FENCEPOST_DISPATCHER": bench.dispatcher,
                "FENCEPOST_API_KEY_FILE": str(key_file),
            },
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def begun(bench: Bench, work: Work) -> None:
    await until(lambda: bench.flushes(work), what="the handler to begin")


async def draining(bench: Bench) -> None:
    async def told() -> bool:
        session = await bench.rows.one("sessions", tenant=bench.rows.tenant)
        return bool(session["draining"])

    await until(told, what="the drain to begin")


async def ended(process: "subprocess.Popen[bytes]", number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    return await asyncio.to_thread(process.wait, EXIT_WITHIN_S)


async def told(bench: Bench, work: Work) -> list[str]:
    """The outcomes recorded so far."""
    return [row["outcome"] for row in await bench.rows.all("dispatches", intent_id=work.intent_id)]


async def waiting_or_ready(bench: Bench, work: Work) -> Row:
    rows = await bench.rows.all("waiting", intent_id=work.intent_id)
    return (rows or await bench.rows.all("ready", intent_id=work.intent_id))[0]


@pytest.mark.parametrize("manner", ["waits", "cleans up"])
async def test_what_does_not_finish_is_given_back_without_an_attempt(
    bench: Bench, manner: str, tmp_path: Path
) -> None:
    work = await bench.work()
    with bot(bench, manner, tmp_path) as process:
        await begun(bench, work)
        assert await ended(process) == 0
    [outcome] = await bench.outcomes(work)
    assert (outcome["outcome"], outcome["reason"]) == ("released", "the worker was stopped")
    assert (await waiting_or_ready(bench, work))["attempts"] == 0
    phases = ["begun", "stopped"] if manner == "cleans up" else ["begun"]
    assert [flush["phase"] for flush in await bench.flushes(work)] == phases
    assert (await bench.rows.one("sessions", tenant=work.tenant))["state"] == "ended"
    assert "Traceback" not in (tmp_path / "log").read_text()


async def test_what_finishes_in_time_is_completed(bench: Bench, tmp_path: Path) -> None:
    work = await bench.work()
    with bot(bench, "finishes", tmp_path) as process:
        await begun(bench, work)
        process.send_signal(signal.SIGINT)
        await draining(bench)
        (tmp_path / "end").touch()
        assert await asyncio.to_thread(process.wait, EXIT_WITHIN_S) == 0
    assert (await bench.intent(work))["status"] == "succeeded"


@pytest.mark.parametrize("manner", ["blocks", "blocks a thread", "swallows"])
async def test_a_process_that_hangs_is_ended_and_says_where(
    bench: Bench, manner: str, tmp_path: Path
) -> None:
    work = await bench.work()
    with bot(bench, manner, tmp_path) as process:
        await begun(bench, work)
        began_s = time.monotonic()
        assert await ended(process) != 0
        assert time.monotonic() - began_s < EXIT_WITHIN_S
    log = (tmp_path / "log").read_text()
    assert ("released" in await told(bench, work)) == (manner == "blocks a thread")
    assert "Timeout" in log
    assert "most recent call first" in log


async def test_the_same_signal_twice_ends_at_once(bench: Bench, tmp_path: Path) -> None:
    work = await bench.work()
    with bot(bench, "swallows", tmp_path) as process:
        await begun(bench, work)
        process.terminate()
        await draining(bench)
        assert await ended(process) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("key", "refusal"),
    [("unknown", KeyUnknown), ("revoked", KeyRevoked), ("for something else", ScopeMissing)],
)
async def test_a_key_that_will_not_do_ends_the_worker(
    bench: Bench, key: str, refusal: type[FencepostError]
) -> None:
    if key == "unknown":
        bench = replace(bench, api_key="fp_aaaaaaaaaaaaaaaa_" + "b" * 43)
    elif key == "revoked":
        key_id = bench.api_key.split("_")[1]
        await bench.rows.change("api_keys", {"key_id": key_id}, ends_at=NOW)
    else:
        other = await bench.rows.api_key("publish", tenant=bench.rows.tenant)
        bench = replace(bench, api_key=other)

    async def handler(run: Run) -> None:
        raise AssertionError("nothing is granted")

    with pytest.raises(refusal):
        await bench.worker(handler).run()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_key_revoked_under_way_ends_the_worker_and_its_handlers(bench: Bench) -> None:
    await bench.work()
    begun: list[int] = []
    stopped: list[bool] = []

    async def handler(run: Run) -> None:
        begun.append(run.attempt)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    running = asyncio.create_task(bench.worker(handler).run())
    await until(lambda: begun, what="the handler to begin")
    key_id = bench.api_key.split("_")[1]
    await bench.rows.change("api_keys", {"key_id": key_id}, ends_at=NOW)
    with pytest.raises(KeyRevoked):
        async with asyncio.timeout(EXIT_WITHIN_S):
            await running
    assert stopped == [True]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_worker_leaves_nothing_behind(bench: Bench) -> None:
    works = [await bench.work() for _ in range(5)]

    async def handler(run: Run) -> None:
        await run.checkpoint("work")

    async with bench.working(handler, publisher="127.0.0.1:1"):
        for work in works:
            await bench.settled(work)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_worker_that_is_cancelled_ends_its_handlers(bench: Bench) -> None:
    await bench.work()
    begun: list[int] = []
    stopped: list[bool] = []

    async def handler(run: Run) -> None:
        begun.append(run.attempt)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    running = asyncio.create_task(bench.worker(handler).run())
    await until(lambda: begun, what="the handler to begin")
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert stopped == [True]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_arrives_while_it_drains_is_given_back(bench: Bench) -> None:
    begun: list[int] = []
    may_end = asyncio.Event()

    async def handler(run: Run) -> None:
        begun.append(run.dispatch.intent_id)
        await may_end.wait()

    async with network_to(bench.dispatcher) as (network, address):
        worker = replace(bench, dispatcher=address).worker(handler)
        running = asyncio.create_task(worker.run())
        first = await bench.work()
        await until(lambda: begun, what="the first to begin")
        network.freeze()
        second = await bench.work()

        async def both_granted() -> bool:
            return len(await bench.rows.all("leases", tenant=first.tenant)) == 2

        await until(both_granted, what="the second to be granted")
        worker.stop()
        await network.restore()
        [outcome] = await bench.outcomes(second)
        may_end.set()
        async with asyncio.timeout(EXIT_WITHIN_S):
            await running
    assert begun == [first.intent_id]
    assert (outcome["outcome"], outcome["reason"]) == ("released", "the worker was stopped")
    assert (await bench.intent(first))["status"] == "succeeded"


async def test_a_worker_waits_for_a_dispatcher_that_is_away(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(run: Run) -> None:
        return None

    async with network_to(bench.dispatcher) as (network, address):
        await network.cut()
        async with replace(bench, dispatcher=address).working(handler) as running:
            work = await bench.work()
            await until(lambda: "comes back" in caplog.text, what="the worker to miss it")
            assert not running.done()
            await network.restore()
            await bench.settled(work)


async def test_a_dispatcher_that_restarts_takes_no_work_away(bench: Bench, shared_url: str) -> None:
    work = await bench.work()
    may_end = asyncio.Event()
    begun: list[int] = []

    async def handler(run: Run) -> None:
        begun.append(run.attempt)
        await may_end.wait()
        await run.checkpoint("after the restart")

    url = as_service(shared_url, "dispatcher")
    async with service_process_beside("dispatcher", url, DISPATCHER) as first:
        moved = replace(bench, dispatcher=first.grpc)
        async with moved.working(handler):
            await until(lambda: begun, what="the handler to begin")
            first.ask_to_stop()
            assert await asyncio.to_thread(first.stopped) == 0
            environment = {**DISPATCHER, "DISPATCHER_GRPC_ADDRESS": first.grpc}
            async with service_process_beside("dispatcher", url, environment):
                may_end.set()
                await bench.settled(work)
                await moved.settled(await bench.work())
    assert begun[0] == 1
    [outcome] = await bench.outcomes(work)
    assert (outcome["epoch"], outcome["outcome"]) == (1, "completed")


def test_a_file_of_several_variables_is_not_taken_for_a_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.env"
    keys.write_text("OPERATOR_API_KEY=fp_a_b\nWORKER_API_KEY=fp_c_d\n")
    monkeypatch.setenv("FENCEPOST_DISPATCHER", "127.0.0.1:1")
    monkeypatch.delenv("FENCEPOST_API_KEY", raising=False)
    monkeypatch.setenv("FENCEPOST_API_KEY_FILE", str(keys))
    with pytest.raises(ValueError, match="must hold one credential") as refused:
        Worker.from_environment(queues=["reviews"])
    assert str(keys) in str(refused.value)
    assert "fp_a_b" not in str(refused.value)


def test_a_worker_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_DISPATCHER", raising=False)
    with pytest.raises(ValueError, match="FENCEPOST_DISPATCHER must be set"):
        Worker.from_environment(queues=["reviews"])
    monkeypatch.setenv("FENCEPOST_DISPATCHER", "127.0.0.1:1")
    monkeypatch.setenv("FENCEPOST_API_KEY", "fp_x_y")
    monkeypatch.setenv("FENCEPOST_API_KEY_FILE", "key")
    with pytest.raises(ValueError, match="both set"):
        Worker.from_environment(queues=["reviews"])
    with pytest.raises(ValueError, match="concurrency"):
        Worker(dispatcher="127.0.0.1:1", queues=["reviews"], concurrency=0)
    with pytest.raises(ValueError, match="no handler"):
        asyncio.run(Worker(dispatcher="127.0.0.1:1", queues=["reviews"]).run())
