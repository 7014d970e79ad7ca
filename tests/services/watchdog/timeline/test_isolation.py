"""What is not there, and what is another tenant's, which is told the same way."""

import pytest
from fencepost.errors import FieldInvalid

from services.watchdog.timeline.operations import ByDelivery, ByUrl, Subject, TimelineOperations
from tests.rows import Rows, from_now
from tests.services.watchdog.timeline.stories import MINUTE_MS, delivered, published_story


@pytest.mark.parametrize("subject", [ByDelivery("d-9"), ByUrl("https://github.com/a/b/pull/1")])
async def test_that_nothing_was_received_is_an_answer(
    timelines: TimelineOperations, rows: Rows, subject: Subject
) -> None:
    await rows.delivery(received_at=from_now(-5 * 60 * MINUTE_MS))
    await rows.delivery(received_at=from_now(-3 * 60 * MINUTE_MS))
    await rows.delivery(endpoint="other", received_at=from_now(-4 * 24 * 60 * MINUTE_MS))
    await rows.delivery(tenant="globex", endpoint="secret")
    timeline = await timelines.timeline("acme", subject)
    assert timeline.events == []
    assert timeline.standing.startswith(f"Nothing was received for {timeline.title}.")
    assert "Endpoint github was last heard at" in timeline.standing
    assert "(3 h ago); endpoint other" in timeline.standing
    assert "(4 d ago).\n" in timeline.standing
    assert "secret" not in timeline.standing
    of_all = await timelines.timeline(None, subject)
    assert "Endpoint globex/secret was last heard at" in of_all.standing


@pytest.mark.guarantee("X8")
async def test_another_tenants_story_is_as_if_it_were_not_there(
    timelines: TimelineOperations, rows: Rows
) -> None:
    work = await published_story(rows, tenant="globex")
    assert work.change_request is not None
    for subject in (ByDelivery("d-1"), ByUrl(work.change_request.url)):
        timeline = await timelines.timeline("acme", subject)
        assert timeline.events == []
        assert timeline.standing.endswith("No endpoint has ever received anything.")
        assert len((await timelines.timeline("globex", subject)).events) == 11
        assert len((await timelines.timeline(None, subject)).events) == 11


@pytest.mark.guarantee("X8")
async def test_two_tenants_with_one_change_request_each_have_their_own_story(
    timelines: TimelineOperations, rows: Rows
) -> None:
    """Everything but the tenant is the same, ids of the forge included."""
    ours = await rows.change_request(repo_id=99, url="https://github.com/a/b/pull/7")
    theirs = await rows.change_request(
        repo_id=99, url="https://github.com/a/b/pull/7", tenant="globex", head_sha=ours.head_sha
    )
    for pull in (ours, theirs):
        delivery = await delivered(rows, pull, delivery_id="d-1")
        work = await rows.run(
            await rows.lease(await rows.intent(pull, delivery_seq=delivery["delivery_seq"]))
        )
        await rows.attempt(await rows.publication(work))
        await rows.waiting(await rows.intent(pull), reason=f"of {pull.tenant}")
    for tenant in ("acme", "globex"):
        for subject in (ByDelivery("d-1"), ByUrl(ours.url)):
            timeline = await timelines.timeline(tenant, subject)
            assert len(timeline.events) == 9
            assert f"of {tenant}." in timeline.standing
            ids = {event.ids["intent_id"] for event in timeline.events if "intent_id" in event.ids}
            own = {str(row["intent_id"]) for row in await rows.all("intents", tenant=tenant)}
            assert ids == own
    for subject in (ByDelivery("d-1"), ByUrl(ours.url)):
        with pytest.raises(FieldInvalid, match="tenants that have this: acme, globex") as e:
            await timelines.timeline(None, subject)
        assert e.value.violations[0][0] == "fencepost-tenant"
