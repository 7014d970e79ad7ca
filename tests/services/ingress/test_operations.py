"""One transaction from marker to ready row: what is written, and what a repetition is answered."""

import pytest
from fencepost.errors import BodyTooLarge, DeliveryConflict, FieldInvalid, ResourceNotFound
from psycopg import sql

from services.ingress.submissions import Match, Taken
from shared.keys import Key
from shared.metrics import REGISTRY
from shared.schema.states import DeliveryOutcome
from tests.services.ingress.desk import ONE_EACH, Desk
from tests.services.ingress.pulls import (
    HEAD,
    NUMBER,
    REPO_ID,
    TENANT,
    URL,
    A,
    B,
    C,
    pull,
    real,
    submission,
)

ACCEPTED, DUPLICATE, IGNORED = (
    DeliveryOutcome.ACCEPTED,
    DeliveryOutcome.DUPLICATE,
    DeliveryOutcome.IGNORED,
)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def key(head_sha: str) -> str:
    return Key(
        forge_instance="github.com", repo_id=REPO_ID, number=NUMBER, head_sha=head_sha
    ).canonical()


@pytest.mark.guarantee("I2", "I6", "I10")
async def test_a_real_delivery_becomes_work(desk: Desk) -> None:
    body = real("opened")
    taken = await desk.take("d-1", body, traceparent=TRACEPARENT)
    intent = await desk.rows.one("intents")
    assert taken == Taken(
        outcome=ACCEPTED,
        matched=Match.NONE,
        first_delivery_id="d-1",
        intent_ids=(intent["intent_id"],),
        reason="",
    )
    delivery = await desk.rows.one("deliveries")
    label = f"Codertocat/Hello-World#2@{HEAD}"
    assert intent["delivery_seq"] == delivery["delivery_seq"]
    assert (intent["key"], intent["key_label"]) == (key(HEAD), label)
    assert (intent["queue"], intent["action"]) == ("reviews", "container-dispatch")
    assert (intent["generation"], intent["status"], intent["payload"]) == (1, "open", None)
    assert intent["traceparent"] == delivery["traceparent"] == TRACEPARENT
    assert delivery["body"] == body
    assert (delivery["outcome"], delivery["event_action"]) == ("accepted", "opened")
    assert (delivery["key"], delivery["key_label"]) == (key(HEAD), label)
    assert delivery["projection"]["head_sha"] == HEAD
    ready = await desk.rows.one("ready", intent_id=intent["intent_id"])
    assert (ready["key"], ready["queue"]) == (key(HEAD), "reviews")
    change_request = await desk.rows.one("change_requests")
    assert (change_request["head_sha"], change_request["url"]) == (HEAD, URL)
    assert desk.woken == ["reviews"]
    assert await desk.written() == ONE_EACH


@pytest.mark.guarantee("I1")
async def test_the_same_delivery_again_gets_the_first_result_and_writes_nothing(
    desk: Desk,
) -> None:
    first = await desk.take("d-1", pull())
    written = await desk.written()
    again = await desk.take("d-1", pull())
    assert again == Taken(
        outcome=DUPLICATE,
        matched=Match.DELIVERY_ID,
        first_delivery_id="d-1",
        intent_ids=first.intent_ids,
        reason="",
    )
    assert await desk.written() == written
    assert desk.woken == ["reviews"]


@pytest.mark.guarantee("I4")
async def test_the_same_id_with_another_body_is_refused_and_writes_nothing(desk: Desk) -> None:
    await desk.take("d-1", pull())
    written = await desk.written()
    labels = {"endpoint": "github", "reason": "DELIVERY_CONFLICT"}
    counted = REGISTRY.get_sample_value("delivery_refusals_total", labels) or 0
    refused = await desk.submit("d-1", pull(title="Other"))
    assert REGISTRY.get_sample_value("delivery_refusals_total", labels) == counted + 1
    assert isinstance(refused, DeliveryConflict)
    assert (refused.endpoint, refused.delivery_id) == ("github", "d-1")
    assert await desk.written() == written
    assert (await desk.rows.one("deliveries"))["body"] == pull()


@pytest.mark.guarantee("I13")
async def test_a_second_delivery_for_the_key_is_a_duplicate_with_the_firsts_result(
    desk: Desk,
) -> None:
    first = await desk.take("d-1", pull())
    second = await desk.take("d-2", pull("ready_for_review", at=1))
    assert second == Taken(
        outcome=DUPLICATE,
        matched=Match.KEY,
        first_delivery_id="d-1",
        intent_ids=first.intent_ids,
        reason="",
    )
    stored = await desk.rows.one("deliveries", delivery_id="d-2")
    assert (stored["outcome"], stored["matched_delivery_id"]) == ("duplicate", "d-1")
    assert len(await desk.rows.all("intents")) == len(await desk.rows.all("ready")) == 1
    again = await desk.take("d-2", pull("ready_for_review", at=1))
    assert (again.matched, again.first_delivery_id) == (Match.DELIVERY_ID, "d-1")
    assert again.intent_ids == first.intent_ids


@pytest.mark.guarantee("I13")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("succeeded", DUPLICATE),
        ("dead", ACCEPTED),
        ("cancelled", ACCEPTED),
        ("superseded", ACCEPTED),
    ],
)
async def test_waiting_running_and_succeeded_work_occupies_its_key(
    desk: Desk, status: str, outcome: DeliveryOutcome
) -> None:
    first = await desk.take("d-1", pull())
    settled = {"status": status, "settled_at": sql.SQL("clock_timestamp()")}
    await desk.rows.change("intents", {"intent_id": first.intent_ids[0]}, **settled)
    second = await desk.take("d-2", pull("ready_for_review", at=1))
    assert second.outcome is outcome
    assert (second.intent_ids == first.intent_ids) is (outcome is DUPLICATE)


@pytest.mark.guarantee("I13")
async def test_an_enqueued_intent_does_not_occupy_the_key(desk: Desk) -> None:
    change_request = await desk.rows.change_request(
        repo_id=REPO_ID, number=NUMBER, head_sha=A, tenant=TENANT
    )
    await desk.rows.intent(change_request)
    assert (await desk.take("d-1", pull())).outcome is ACCEPTED


@pytest.mark.guarantee("I13")
async def test_ignored_deliveries_do_not_occupy_the_key(desk: Desk) -> None:
    draft = await desk.take("d-1", pull(draft=True))
    assert (draft.outcome, draft.reason, draft.intent_ids) == (IGNORED, "draft", ())
    assert (await desk.take("d-2", pull("labeled"))).reason == "action-unwanted"
    assert desk.woken == []
    ready = await desk.take("d-3", pull("ready_for_review", at=1))
    assert ready.outcome is ACCEPTED
    assert (await desk.rows.one("intents"))["generation"] == 1


async def test_a_repeated_ignored_delivery_tells_the_reason_again(desk: Desk) -> None:
    await desk.take("d-1", b'{"zen": "Design for failure."}', event="ping")
    again = await desk.take("d-1", b'{"zen": "Design for failure."}', event="ping")
    assert (again.outcome, again.reason) == (DUPLICATE, "ping")


@pytest.mark.guarantee("I6")
async def test_each_head_is_a_key_and_each_time_it_becomes_current_a_generation(
    desk: Desk,
) -> None:
    await desk.take("d-1", pull(head_sha=A, at=0))
    await desk.take("d-2", pull("synchronize", before=A, head_sha=B, at=1))
    await desk.take("d-3", pull("synchronize", before=B, head_sha=A, at=2))
    await desk.take("d-4", pull("closed", head_sha=A, at=3))
    await desk.take("d-5", pull("reopened", head_sha=A, at=4))
    made = [(row["key"], row["generation"]) for row in await desk.rows.all("intents")]
    assert made == [(key(A), 1), (key(B), 2), (key(A), 3), (key(A), 4)]
    heads = await desk.rows.all("change_request_heads")
    assert sorted((row["generation"], row["head_sha"]) for row in heads) == [
        (1, A),
        (2, B),
        (3, A),
        (4, A),
    ]
    change_request = await desk.rows.one("change_requests")
    assert (change_request["generation"], change_request["state"]) == (4, "open")


async def test_a_closed_change_request_is_recorded_as_closed(desk: Desk) -> None:
    await desk.take("d-1", pull())
    closed = await desk.take("d-2", pull("closed", at=1))
    assert (closed.outcome, closed.reason) == (IGNORED, "closed")
    assert (await desk.rows.one("change_requests"))["state"] == "closed"


async def test_an_outdated_head_makes_no_work_and_moves_nothing(desk: Desk) -> None:
    await desk.take("d-1", pull("synchronize", before=B, head_sha=C, at=2))
    late = await desk.take("d-2", pull("synchronize", before=A, head_sha=B, at=1))
    assert (late.outcome, late.reason) == (IGNORED, "head-outdated")
    change_request = await desk.rows.one("change_requests")
    assert (change_request["head_sha"], change_request["generation"]) == (C, 1)


@pytest.mark.guarantee("I9")
async def test_when_it_is_unclear_the_head_stays_and_the_delivered_one_gets_its_work(
    desk: Desk,
) -> None:
    await desk.take("d-1", pull(head_sha=A))
    await desk.take("d-2", pull("synchronize", before=A, head_sha=B, at=1))
    was_current = await desk.take("d-3", pull("ready_for_review", head_sha=A, at=1))
    never_was_current = await desk.take("d-4", pull("ready_for_review", head_sha=C, at=1))
    assert (was_current.outcome, was_current.reason) == (IGNORED, "head-outdated")
    intent = await desk.rows.one("intents", intent_id=never_was_current.intent_ids[0])
    assert (intent["key"], intent["generation"], intent["status"]) == (key(C), 2, "open")
    change_request = await desk.rows.one("change_requests")
    assert (change_request["head_sha"], change_request["generation"]) == (B, 2)


async def test_a_renamed_repository_keeps_its_change_request(desk: Desk) -> None:
    await desk.take("d-1", pull())
    renamed = pull("ready_for_review", at=1).replace(
        b"Codertocat/Hello-World", b"Codertocat/Goodbye"
    )
    second = await desk.take("d-2", renamed)
    assert (second.matched, second.first_delivery_id) == (Match.KEY, "d-1")
    change_request = await desk.rows.one("change_requests")
    assert change_request["repo_name"] == "Codertocat/Goodbye"


async def test_an_expired_marker_counts_as_absent_and_the_key_still_dedupes(desk: Desk) -> None:
    first = await desk.take("d-1", pull())
    past = sql.SQL("clock_timestamp() - interval '1 second'")
    assert await desk.rows.change("delivery_markers", {"delivery_id": "d-1"}, expires_at=past) == 1
    later = await desk.take("d-1", pull("ready_for_review", at=1))
    assert (later.matched, later.intent_ids) == (Match.KEY, first.intent_ids)
    marker = await desk.rows.one("delivery_markers")
    assert marker["body_sha256"] == (await desk.rows.all("deliveries"))[-1]["body_sha256"]
    assert (await desk.take("d-1", pull("ready_for_review", at=1))).matched is Match.DELIVERY_ID


async def test_the_marker_lives_as_long_as_the_settings_say(desk: Desk) -> None:
    await desk.take("d-1", pull())
    async with desk.rows.connection.cursor() as cursor:
        await cursor.execute(
            "SELECT extract(epoch FROM m.expires_at - d.received_at)::float8"
            " FROM fencepost.delivery_markers m, fencepost.deliveries d"
        )
        [(lives_s,)] = await cursor.fetchall()
    assert lives_s == pytest.approx(604_800, abs=5)


async def test_a_list_is_one_transaction_with_an_outcome_for_each(desk: Desk) -> None:
    endpoint = desk.endpoint
    await desk.take("d-0", pull(number=9))
    outcomes = await desk.intake.submit(
        [
            submission(endpoint, "d-4", pull("ready_for_review", at=1)),
            submission(endpoint, "d-1", pull()),
            submission(endpoint, "d-1", pull()),
            submission(endpoint, "d-1", pull(title="Other")),
            submission(endpoint, "d-0", pull(number=9, title="Other")),
            submission(endpoint, "d-2", b"{"),
            submission(endpoint, "d-3", pull("synchronize", before=A, head_sha=B, at=2)),
        ]
    )
    said = [
        (each.outcome, each.matched, each.first_delivery_id)
        if isinstance(each, Taken)
        else each.reason
        for each in outcomes
    ]
    assert said == [
        (ACCEPTED, Match.NONE, "d-4"),
        (DUPLICATE, Match.KEY, "d-4"),
        (DUPLICATE, Match.DELIVERY_ID, "d-4"),
        "DELIVERY_CONFLICT",
        "DELIVERY_CONFLICT",
        "FIELD_INVALID",
        (ACCEPTED, Match.NONE, "d-3"),
    ]
    async with desk.rows.connection.cursor() as cursor:
        await cursor.execute(
            "SELECT count(DISTINCT xmin::text) FROM fencepost.deliveries WHERE delivery_id <> 'd-0'"
        )
        assert await cursor.fetchall() == [(1,)]


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("body", "changes", "field"),
    [
        (b"not json", {}, "body"),
        (b"{}", {}, "action"),
        (pull(head_sha="abc"), {}, "pull_request.head.sha"),
        (pull(), {"event": "pull\0request"}, "event"),
        (pull(), {"event": "pull request"}, "event"),
        (pull(), {"content_type": "application/json\0"}, "content_type"),
        (pull(), {"content_type": "text/plain"}, "content_type"),
    ],
)
async def test_a_malformed_delivery_names_its_field_and_writes_nothing(
    desk: Desk, body: bytes, changes: dict[str, str], field: str
) -> None:
    refused = await desk.submit("d-1", body, **changes)
    assert isinstance(refused, FieldInvalid)
    assert [name for name, _ in refused.violations] == [field]
    assert await desk.written() == {}


@pytest.mark.guarantee("I10")
async def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not(desk: Desk) -> None:
    limit_bytes = desk.intake.settings.body_limit_bytes
    body = pull().ljust(limit_bytes)
    refused = await desk.submit("d-1", body + b" ")
    assert isinstance(refused, BodyTooLarge)
    assert await desk.written() == {}
    assert (await desk.take("d-1", body)).outcome is ACCEPTED
    assert len((await desk.rows.one("deliveries"))["body"]) == limit_bytes


@pytest.mark.guarantee("I10")
async def test_text_that_a_database_cannot_store_is_stored_raw_and_cleaned(desk: Desk) -> None:
    body = pull(title="a\0b \ud800").replace(b"Codertocat/Hello-World", b"Codertocat/\\u0000")
    await desk.take("d-1", body)
    delivery = await desk.rows.one("deliveries")
    assert delivery["body"] == body
    assert delivery["projection"]["title"] == "a\ufffdb \ufffd"
    assert delivery["key_label"] == f"Codertocat/\ufffd#2@{A}"


async def test_a_stored_delivery_is_found_by_its_tenant_alone(desk: Desk) -> None:
    taken = await desk.take("d-1", pull(), traceparent=TRACEPARENT)
    found = await desk.intake.find_delivery(tenant=TENANT, endpoint="github", delivery_id="d-1")
    assert (found.outcome, found.intent_ids) == (ACCEPTED, taken.intent_ids)
    assert (found.head_sha, found.suffix, found.number) == (A, "", NUMBER)
    assert (found.body_bytes, found.traceparent) == (len(pull()), TRACEPARENT)
    for tenant, endpoint, delivery_id in (
        ("other", "github", "d-1"),
        (TENANT, "gitlab", "d-1"),
        (TENANT, "github", "d-2"),
        (TENANT, "github\0", "d-1"),
        (TENANT, "github", "d-1\0"),
    ):
        with pytest.raises(ResourceNotFound):
            await desk.intake.find_delivery(
                tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
            )
