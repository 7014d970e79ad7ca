"""The path of a publication to a forge that answers, fails and lies, as a process of its own."""

import asyncio
import hashlib
import json
import logging
from typing import Any

import pytest
from fencepost.errors import (
    LeaseLost,
    PublicationRefused,
    ReconciliationRequired,
    ResourceNotFound,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, format_span_id, format_trace_id
from pydantic import SecretStr

from examples.scripted_forge.client import ScriptedForge
from services.publisher.model import Review, Verdict
from shared import semantic
from shared.embedded.server import free_port
from shared.schema.states import AttemptStatus
from tests.services.publisher.bench import Bench
from tests.services.publisher.commands import claimed, review_of
from tests.waiting import until

FORM = json.dumps({"message": "No", "documentation_url": "https://docs.github.com/rest"})
JSON = {"content-type": "application/json; charset=utf-8"}


@pytest.mark.guarantee("P2b", "P7")
async def test_a_review_is_posted_once_with_its_evidence(bench: Bench) -> None:
    work = await bench.work()
    review = Review(verdict=Verdict.REQUEST_CHANGES, body="See <!-- fencepost-review key=x -->.")
    published = await bench.publishing().publish_review(review_of(work, review=review))
    [remote] = bench.remote_reviews(work)
    [attempt] = await bench.attempts(work)
    [seen] = published.publication.attempts
    marker = (
        f"<!-- fencepost-review key={work.key} publication={published.publication.publication_id}"
        " attempt=1 -->"
    )
    assert remote.body == f"{marker}\n\nSee &lt;!-- fencepost-review key=x -->."
    assert (remote.state, remote.commit_id) == ("CHANGES_REQUESTED", work.key.partition("@")[2])
    assert not published.duplicate
    assert (seen.status, seen.remote_id) == (AttemptStatus.SUCCEEDED, str(remote.id))
    assert seen.remote_url == remote.html_url
    assert attempt["status"] == "succeeded"
    assert (attempt["remote_id"], attempt["remote_url"]) == (str(remote.id), remote.html_url)
    assert attempt["evidence"] == marker
    assert json.loads(attempt["result"])["author_login"] == remote.author


@pytest.mark.guarantee("P2b")
async def test_what_stands_in_the_ledger_is_what_was_sent(
    bench: Bench, forge: ScriptedForge
) -> None:
    work = await bench.work()
    await bench.publishing().publish_review(review_of(work))
    [request] = bench.requests(work)
    [attempt] = await bench.attempts(work)
    line = f"{request.method} {request.raw_path}\n\n"
    assert attempt["request"] == line.encode() + request.body
    sent = dict(request.headers)
    credential = hashlib.sha256(f"Bearer {forge.token}".encode()).hexdigest()
    assert sent["authorization"] == f"sha256:{credential}"
    assert sent["user-agent"].startswith("fencepost-publisher/")
    assert sent["x-github-api-version"] == "2022-11-28"


@pytest.mark.guarantee("P2")
async def test_a_duplicate_returns_what_is_stored_and_sends_nothing(bench: Bench) -> None:
    work = await bench.work()
    publishing = bench.publishing()
    first = await publishing.publish_review(review_of(work))
    again = await publishing.publish_review(review_of(work))
    other = Review(verdict=Verdict.APPROVE, body="Something else.")
    differing = await publishing.publish_review(review_of(work, review=other))
    assert again.publication == differing.publication == first.publication
    assert [first.duplicate, again.duplicate, differing.duplicate] == [False, True, True]
    assert [first.digest_differs, again.digest_differs, differing.digest_differs] == [
        *(False, False, True)
    ]
    assert len(bench.requests(work)) == 1
    assert len(bench.remote_reviews(work)) == 1


DOUBTS: list[tuple[dict[str, Any], int]] = [
    ({"kind": "store_then_502"}, 1),
    ({"kind": "store_then_reset"}, 1),
    ({"kind": "reset_before_store"}, 0),
    ({"kind": "slow_answer", "delay_ms": 2000}, 1),
    ({"kind": "status", "status": 404, "body": "<html>404</html>"}, 0),
    ({"kind": "status", "status": 422, "body": "nginx", "headers": JSON}, 0),
    ({"kind": "status", "status": 500}, 0),
    ({"kind": "status", "status": 503, "headers": {"retry-after": "1"}}, 0),
    ({"kind": "status", "status": 408}, 0),
    ({"kind": "status", "status": 409}, 0),
    ({"kind": "status", "status": 201, "body": '{"id": 1', "headers": JSON}, 0),
    ({"kind": "status", "status": 200, "body": "<html>sign in</html>"}, 0),
    ({"kind": "status", "status": 204, "body": ""}, 0),
    *(
        ({"kind": "status", "status": status, "headers": {"location": "/user"}}, 0)
        for status in (301, 302, 303, 307, 308)
    ),
]


@pytest.mark.guarantee("P2", "P3", "P4")
@pytest.mark.parametrize(("fault", "remote_count"), DOUBTS, ids=str)
async def test_any_doubt_is_uncertain_and_nothing_is_sent_again(
    bench: Bench, fault: dict[str, Any], remote_count: int
) -> None:
    work = await bench.work()
    publishing = bench.publishing(forge_read_timeout_ms=500)
    bench.forge.fault(**fault, path_regex=bench.repo_name(work))
    with pytest.raises(ReconciliationRequired, match="may have reached the forge") as doubt:
        await publishing.publish_review(review_of(work))
    [attempt] = await bench.attempts(work)
    assert (doubt.value.publication_id, doubt.value.status) == (
        attempt["publication_id"],
        "uncertain",
    )
    assert attempt["status"] == "uncertain"
    assert attempt["detail"]
    with pytest.raises(ReconciliationRequired, match="nothing was sent"):
        await publishing.publish_review(review_of(work))
    assert len(bench.requests(work)) == 1
    assert len(bench.remote_reviews(work)) == remote_count


REFUSALS: list[dict[str, Any]] = [
    {"status": 400},
    {"status": 401},
    {"status": 403},
    {"status": 403, "headers": {"retry-after": "60"}},
    {"status": 404},
    {"status": 410},
    {"status": 413},
    {"status": 422},
    {"status": 429},
]


@pytest.mark.guarantee("P2", "P3", "P4")
@pytest.mark.parametrize("fault", REFUSALS, ids=str)
async def test_a_refusal_of_the_forge_is_proof_and_a_new_attempt_may_follow(
    bench: Bench, fault: dict[str, Any]
) -> None:
    work = await bench.work()
    publishing = bench.publishing()
    headers = {**JSON, **fault.pop("headers", {})}
    path = bench.repo_name(work)
    bench.forge.fault("status", path_regex=path, body=FORM, headers=headers, **fault)
    with pytest.raises(PublicationRefused, match=f"status {fault['status']}: No") as refusal:
        await publishing.publish_review(review_of(work))
    published = await publishing.publish_review(review_of(work))
    assert published.publication.publication_id == refusal.value.publication_id
    assert [(each.attempt, each.status) for each in published.publication.attempts] == [
        (1, AttemptStatus.REFUSED),
        (2, AttemptStatus.SUCCEEDED),
    ]
    [remote] = bench.remote_reviews(work)
    assert " attempt=2 -->" in remote.body


@pytest.mark.guarantee("P4")
async def test_the_forges_own_refusals_are_proof(bench: Bench) -> None:
    elsewhere = await bench.rows.work()
    with pytest.raises(PublicationRefused, match="status 404: Not Found"):
        await bench.publishing().publish_review(review_of(elsewhere))
    stranger = await bench.work()
    with pytest.raises(PublicationRefused, match="status 401: Bad credentials"):
        await bench.publishing(forge_token=SecretStr("wrong")).publish_review(review_of(stranger))


@pytest.mark.guarantee("P4")
async def test_a_connection_never_made_is_proof(bench: Bench) -> None:
    work = await bench.work()
    away = bench.publishing(forge_url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(PublicationRefused, match="never connected"):
        await away.publish_review(review_of(work))
    await bench.publishing().publish_review(review_of(work))


@pytest.mark.guarantee("P4")
async def test_the_strict_setting_takes_no_refusal_for_proof(bench: Bench) -> None:
    work = await bench.rows.work()
    with pytest.raises(ReconciliationRequired):
        await bench.publishing(strict_uncertain=True).publish_review(review_of(work))
    [attempt] = await bench.attempts(work)
    assert (attempt["status"], attempt["detail"][:10]) == ("uncertain", "status 404")


async def test_a_name_reaches_the_forge_byte_for_byte(bench: Bench) -> None:
    work = await bench.rows.work(
        await bench.rows.change_request(repo_name="Größe-GmbH/a#4%20x?y&z")
    )
    with pytest.raises(PublicationRefused, match="status 404"):
        await bench.publishing().publish_review(review_of(work))
    path = "/repos/Gr%C3%B6%C3%9Fe-GmbH/a%234%2520x%3Fy%26z/pulls/7/reviews"
    assert path in [one.raw_path for one in bench.forge.requests(method="POST")]


async def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_written(
    bench: Bench,
) -> None:
    work = await bench.rows.work(await bench.rows.change_request(repo_name="o/.."))
    with pytest.raises(ResourceNotFound, match="repository"):
        await bench.publishing().publish_review(review_of(work))
    assert await bench.attempts(work) == []


@pytest.mark.guarantee("P5", "L3")
async def test_what_came_of_it_is_recorded_though_lease_and_caller_are_gone(bench: Bench) -> None:
    work = await bench.work()
    publishing = bench.publishing()
    bench.forge.fault("slow_answer", delay_ms=700, path_regex=bench.repo_name(work))
    calling = asyncio.create_task(publishing.publish_review(review_of(work)))
    await until(lambda: bench.requests(work), what="the request to reach the forge")
    successor = await bench.rows.takeover(work)
    with pytest.raises(ReconciliationRequired, match="running"):
        await publishing.publish_review(review_of(successor))
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert [each["status"] for each in await bench.attempts(work)] == ["running"]
    await publishing.drained()
    [attempt] = await bench.attempts(work)
    assert (attempt["status"], attempt["epoch"]) == ("succeeded", work.epoch)
    with pytest.raises(LeaseLost):
        await publishing.publish_review(review_of(work))
    assert (await publishing.publish_review(review_of(successor))).duplicate
    assert len(bench.remote_reviews(work)) == 1


@pytest.mark.guarantee("P4")
async def test_a_fault_of_ours_between_the_claim_and_the_answer_is_doubt(bench: Bench) -> None:
    work = await bench.work()
    forges = bench.forges()
    publishing = bench.publishing(forges=forges)
    await forges.close()
    with pytest.raises(RuntimeError):
        await publishing.publish_review(review_of(work))
    [attempt] = await bench.attempts(work)
    assert (attempt["status"], attempt["detail"]) == (
        *("uncertain", "the publisher failed: RuntimeError"),
    )


@pytest.mark.guarantee("P2", "P6")
async def test_an_attempt_that_a_crash_left_running_is_never_resent(bench: Bench) -> None:
    work = await bench.work()
    await claimed(bench.database, review_of(work))
    restarted = bench.publishing()
    with pytest.raises(ReconciliationRequired, match="running"):
        await restarted.publish_review(review_of(work))
    await restarted.drained()
    assert bench.requests(work) == []
    [attempt] = await bench.attempts(work)
    assert attempt["status"] == "running"


async def test_a_publication_is_a_span_with_the_call_inside(bench: Bench) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    work = await bench.work()
    tracer = provider.get_tracer("test")
    published = await bench.publishing(tracer=tracer).publish_review(review_of(work))
    call, publication = exporter.get_finished_spans()
    assert publication.name == semantic.PUBLICATION
    attributes = publication.attributes or {}
    assert attributes[semantic.KEY] == work.key
    assert attributes[semantic.PUBLICATION_ID] == published.publication.publication_id
    assert attributes[semantic.PUBLICATION_ATTEMPT] == 1
    assert attributes[semantic.PUBLICATION_OUTCOME] == "succeeded"
    assert call.parent is not None
    assert publication.context is not None
    assert call.parent.span_id == publication.context.span_id
    assert call.kind is SpanKind.CLIENT
    assert (call.attributes or {})[semantic.HTTP_RESPONSE_STATUS_CODE] == 200
    [attempt] = await bench.attempts(work)
    context = publication.context
    assert attempt["traceparent"].startswith(
        f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-0"
    )


async def test_the_credential_stands_nowhere(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    work = await bench.work()
    token = bench.forge.token
    echo = json.dumps({"message": token, "documentation_url": "https://docs.github.com"})
    path = bench.repo_name(work)
    bench.forge.fault("status", status=403, body=echo, headers=JSON, path_regex=path)
    bench.forge.fault("status", status=500, body=echo, headers=JSON, path_regex=path)
    publishing = bench.publishing(tracer=provider.get_tracer("test"))
    said = []
    with caplog.at_level(logging.DEBUG):
        for expected in (PublicationRefused, ReconciliationRequired):
            with pytest.raises(expected) as refusal:
                await publishing.publish_review(review_of(work))
            said.append(str(refusal.value))
    said += [span.to_json() for span in exporter.get_finished_spans()]
    said += [repr(await bench.attempts(work)), caplog.text]
    assert [text for text in said if token in text] == []
