"""Goal: a handler's work, its result and its failures arrive at the dispatcher as what they are."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import fencepost
import pytest
from fencepost import DeterministicError, PermanentError, RetryLaterError, Run
from fencepost.errors import (
    ConnectionDisabled,
    ConnectionMissing,
    FieldInvalid,
    Internal,
    PublicationBlocked,
    PublicationsHeld,
    ReconciliationRequired,
    SealingKeyUnknown,
    SecretTampered,
)
from fencepost.failures import MASK

from tests.sdk.worker.bench import Bench
from tests.waiting import until

TOKEN = "ghp_" + "a1B2" * 9


async def test_work_is_done_and_its_result_kept(bench: Bench) -> None:
    work = await bench.work(payload=b'{"number": 7}')

    async def handler(run: Run) -> bytes:
        assert (run.attempt, run.version, run.key.number) == (1, 0, 7)
        return json.dumps(run.json()).encode()

    async with bench.working(handler):
        intent = await bench.settled(work)
    assert (intent["result"], intent["attempts"]) == (b'{"number": 7}', 1)
    lease = await bench.rows.one("leases", intent_id=work.intent_id)
    assert (lease["state"], lease["epoch"]) == ("succeeded", 1)
    session = await bench.rows.one("sessions", session_id=lease["holder"])
    assert (session["state"], session["version"]) == ("ended", fencepost.__version__)
    assert session["labels"] == {"service.name": "fencepost-worker"}


@pytest.mark.guarantee("C4")
@pytest.mark.parametrize("flushed_by_itself", [[], [False], [False, True], [True, False]], ids=str)
async def test_success_follows_a_final_flush(bench: Bench, flushed_by_itself: list[bool]) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        for final in flushed_by_itself:
            await run.checkpoint("analyse", final=final)

    async with bench.working(handler):
        await bench.settled(work)
    finals = [flush["final"] for flush in await bench.flushes(work)]
    ends_final = flushed_by_itself[-1:] == [True]
    assert finals == (flushed_by_itself if ends_final else [*flushed_by_itself, True])
    assert len(await bench.outcomes(work)) == 1


async def test_what_changes_after_the_final_flush_is_flushed_once_more(bench: Bench) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        await run.checkpoint(final=True)
        run.event_cursor = 9

    async with bench.working(handler):
        await bench.settled(work)
    assert [flush["final"] for flush in await bench.flushes(work)] == [True, True]
    run = await bench.rows.one("runs", tenant=work.tenant)
    assert (run["version"], run["event_cursor"]) == (2, 9)


@pytest.mark.parametrize(
    ("failure", "disposition", "status"),
    [
        (ValueError("once"), "transient", "succeeded"),
        (RetryLaterError("busy"), "transient", "succeeded"),
        (asyncio.CancelledError(), "transient", "succeeded"),
        (DeterministicError("twice"), "deterministic", "succeeded"),
        (FieldInvalid(violations=[("phase", "too long")]), "deterministic", "succeeded"),
        (PermanentError("never"), "permanent", "dead"),
        (ExceptionGroup("both", [ValueError("a"), PermanentError("b")]), "permanent", "dead"),
        (ReconciliationRequired(publication_id=1, status="running"), "blocked", "open"),
        (PublicationsHeld(hold_id=1, why="incident"), "blocked", "open"),
        (PublicationBlocked(publication_id=1), "blocked", "open"),
        (ConnectionMissing(tenant="acme", forge_instance="github.com"), "blocked", "open"),
        (ConnectionDisabled(tenant="acme", forge_instance="github.com"), "blocked", "open"),
        (SealingKeyUnknown(key_id="k1"), "blocked", "open"),
        (SecretTampered(purpose="connection", owner="github.com"), "blocked", "open"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
async def test_each_failure_is_told_by_its_kind(
    bench: Bench, failure: BaseException, disposition: str, status: str
) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        if run.attempt == 1:
            raise failure

    async with bench.working(handler):
        await bench.settled(work, status)
        first, *_ = await bench.outcomes(work)
    assert (first["outcome"], first["disposition"]) == ("failed", disposition)
    assert first["reason"].startswith(
        "ValueError: a; PermanentError: b"
        if isinstance(failure, ExceptionGroup)
        else type(failure).__name__
    )


async def test_a_refusal_is_logged_as_its_sentence_alone(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    work = await bench.work()
    refusal = PublicationBlocked(publication_id=1)

    async def handler(run: Run) -> None:
        if run.attempt == 1:
            raise refusal

    async with bench.working(handler):
        await bench.outcomes(work)
    told = f"intent {work.intent_id}: its handler was refused: {refusal.message}"
    assert told in [record.message for record in caplog.records]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "failure",
    [FieldInvalid(violations=[("body", "must not be empty")]), Internal(error_id="1"), KeyError()],
    ids=["refused field", "our fault", "its own"],
)
async def test_a_mistake_in_code_is_logged_with_its_place(
    bench: Bench, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        if run.attempt == 1:
            raise failure

    async with bench.working(handler):
        await bench.outcomes(work)
    [told] = [record.message for record in caplog.records if "its handler failed" in record.message]
    assert told.startswith(f"intent {work.intent_id}: its handler failed\nTraceback")
    assert "raise failure" in told


async def test_a_handler_says_when_to_come_back(bench: Bench) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        raise RetryLaterError("the forge is down", after_s=90.0001)

    async with bench.working(handler):
        [failed] = await bench.outcomes(work)
        waiting = await bench.rows.one("waiting", intent_id=work.intent_id)
    delay = waiting["due_at"] - failed["ended_at"]
    assert timedelta(seconds=90) < delay < timedelta(seconds=91)
    for nonsense in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="after_s"):
            RetryLaterError("never", after_s=nonsense)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 5000, "x" * 1988),
        ("nul \0 and half \ud83d", "nul \N{REPLACEMENT CHARACTER} and half ?"),
        (f"401 for {TOKEN}", f"401 for ghp_{MASK}"),
        ("https://bot:hunter2@forge.test/x", f"https://bot:{MASK}@forge.test/x"),
        ("authorization: Bearer abcdefgh12345678", f"authorization: Bearer {MASK}"),
        ("", ""),
    ],
    ids=["long", "not storable", "token", "userinfo", "header", "empty"],
)
async def test_whatever_a_failure_says_is_recorded_without_secrets(
    bench: Bench, text: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        if run.attempt == 1:
            raise ValueError(text)

    async with bench.working(handler):
        await bench.settled(work)
        failed, _ = await bench.outcomes(work, 2)
    assert failed["reason"] == (f"ValueError: {shown}" if shown else "ValueError")
    for secret in (TOKEN, "hunter2", "abcdefgh12345678"):
        assert secret not in caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.parametrize("result", [b"x" * 65537, "text", 7])
async def test_a_result_that_cannot_be_kept_is_a_failure(bench: Bench, result: object) -> None:
    work = await bench.work()

    async def handler(run: Run) -> bytes | None:
        return result if run.attempt == 1 else b""  # type: ignore[return-value]  # the mistake

    async with bench.working(handler):
        await bench.settled(work)
        failed, _ = await bench.outcomes(work, 2)
    assert failed["disposition"] == "transient"
    assert [flush["final"] for flush in await bench.flushes(work)] == [True]


async def test_the_next_attempt_takes_up_what_is_durable(bench: Bench) -> None:
    work = await bench.work()
    seen: list[tuple[object, ...]] = []

    async def handler(run: Run) -> None:
        seen.append((dict(run.state), run.event_cursor, run.phase, run.analysis_done, run.version))
        if run.attempt == 1:
            run.state["title"] = "half a pair: \ud83d, und ein ß"
            run.event_cursor = 12
            await run.checkpoint("analyse", analysis_done=True)
            run.state["title"] = "never flushed"
            raise ValueError("once")

    async with bench.working(handler):
        await bench.settled(work)
    title = {"title": "half a pair: \ud83d, und ein ß"}
    assert seen == [({}, 0, "", False, 0), (title, 12, "analyse", True, 1)]


@pytest.mark.parametrize(
    "stored",
    [
        {"state": b"[1]"},
        {"state": b"{"},
        {"state_codec": "aes"},
        {"state_schema_version": 2},
    ],
    ids=lambda stored: next(iter(stored)),
)
async def test_a_state_that_cannot_be_read_is_no_empty_one(
    bench: Bench, stored: dict[str, Any]
) -> None:
    work = await bench.work()
    await bench.rows.run(work, **stored)
    called = False

    async def handler(run: Run) -> None:
        nonlocal called
        called = True

    async with bench.working(handler):
        await bench.settled(work, "dead")
        first, _ = await bench.outcomes(work, 2)
    assert not called
    assert first["disposition"] == "deterministic"
    assert first["reason"].startswith("StateUnreadableError: the stored state is ")


async def test_a_large_payload_is_fetched(bench: Bench) -> None:
    body = b'"' + b"x" * 2_000_000 + b'"'
    work = await bench.work(payload=body)

    async def handler(run: Run) -> bytes:
        return str(len(run.payload)).encode()

    async with bench.working(handler):
        intent = await bench.settled(work)
    assert intent["result"] == str(len(body)).encode()


@pytest.mark.parametrize("phase", ["p" * 101, "nul \0"])
async def test_a_refused_checkpoint_leaves_the_run_as_it_was(bench: Bench, phase: str) -> None:
    work = await bench.work()

    async def handler(run: Run) -> None:
        await run.checkpoint("good", analysis_done=False)
        with pytest.raises(FieldInvalid):
            await run.checkpoint(phase, analysis_done=True)
        assert (run.phase, run.analysis_done, run.version) == ("good", False, 1)
        await run.checkpoint(final=True)

    async with bench.working(handler):
        await bench.settled(work)
    names = [span.name for span in await bench.spans(work)]
    assert names.count("checkpoint.flush") == 3 - ("\0" in phase)


async def test_no_more_handlers_run_at_once_than_asked_for(bench: Bench) -> None:
    for _ in range(20):
        await bench.work()
    running, most, done = 0, 0, 0

    async def handler(run: Run) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await run.checkpoint("work")
        running -= 1
        done += 1

    async with bench.working(handler, concurrency=3):
        await until(lambda: done == 20, what="all work to be done")
    assert most == 3
