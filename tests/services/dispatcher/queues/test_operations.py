"""Queues declared, changed and listed, with audit entries, each its tenant's."""

from collections.abc import Iterable
from typing import Any

import pytest
from fencepost.errors import FieldInvalid, ResourceNotFound

from services.dispatcher.queues import operations
from services.dispatcher.queues.operations import declared_of
from services.dispatcher.queues.rules import Change
from services.dispatcher.queues.store import QueueRow
from tests.services.dispatcher.desk import Desk, declared


def names(rows: Iterable[QueueRow]) -> list[tuple[str, str]]:
    return [(row.tenant, row.name) for row in rows]


@pytest.mark.guarantee("W7")
async def test_a_new_queue_is_stored_as_declared_with_an_entry(desk: Desk) -> None:
    rules: dict[str, Any] = {"retry_delays_ms": (1, 2), "retry_cap_ms": 9}
    made = await desk.put_queue(**rules, retry_jitter_percent=50)
    assert made.created
    assert made.stored is not None
    assert declared_of(made.stored) == declared(**rules, retry_jitter_percent=50)
    assert await desk.queues.get("acme", "reviews") == made.stored
    entry = await desk.rows.one("audit_entries")
    named = ("tenant", "key_id", "action", "subject")
    assert [entry[name] for name in named] == ["acme", "adminkey", "PutQueue", "queue reviews"]
    assert entry["detail"] == {"created": True, "changes": [vars(each) for each in made.changes]}


async def test_what_is_declared_again_changes_nothing(desk: Desk) -> None:
    await desk.put_queue()
    before = await desk.rows.one("queues")
    again = await desk.put_queue()
    assert (again.created, again.changes) == (False, ())
    assert await desk.rows.one("queues") == before
    assert len(await desk.rows.all("audit_entries")) == 1


@pytest.mark.guarantee("W7")
async def test_a_change_is_told_field_by_field(desk: Desk) -> None:
    await desk.put_queue(retry_cap_ms=60_000)
    changed = await desk.put_queue(
        retries_max=2, retry_delays_ms=(5_000, 10_000), retry_jitter_percent=10, lease_ms=1_000
    )
    assert changed.changes == (
        Change(field="max_retries", before="1", after="2"),
        Change(field="retry_delays.delays", before="5000 ms", after="5000 ms, 10000 ms"),
        Change(field="retry_delays.cap", before="60000 ms", after=""),
        Change(field="retry_delays.jitter_percent", before="0", after="10"),
        Change(field="lease_time", before="120000 ms", after="1000 ms"),
    )
    assert changed.stored is not None
    assert changed.stored.changed_at > changed.stored.created_at
    assert declared_of(changed.stored).retry_delays_ms == (5_000, 10_000)
    entries = await desk.rows.all("audit_entries")
    details = [each["detail"]["changes"] for each in entries if not each["detail"]["created"]]
    assert details == [[vars(change) for change in changed.changes]]


async def test_a_preview_writes_nothing(desk: Desk) -> None:
    preview = await desk.put_queue(validate_only=True)
    assert (preview.stored, preview.created) == (None, True)
    assert preview.changes
    made = await desk.put_queue()
    preview = await desk.put_queue(retries_max=5, validate_only=True)
    assert preview.stored == made.stored
    assert preview.changes == (Change(field="max_retries", before="1", after="5"),)
    assert len(await desk.rows.all("audit_entries")) == 1


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"retry_delays_ms": (5, 0), "retry_cap_ms": 9}, "queue.retry_delays.delays"),
        ({"retry_delays_ms": (10, 5), "retry_cap_ms": 9}, "queue.retry_delays.cap"),
    ],
)
async def test_delays_that_cannot_grow_are_refused(
    desk: Desk, wrong: dict[str, Any], field: str
) -> None:
    with pytest.raises(FieldInvalid) as refused:
        await desk.put_queue(**wrong)
    assert [name for name, _ in refused.value.violations] == [field]
    assert await desk.rows.all("queues") == []


async def test_a_tenant_has_so_many_queues_at_most(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "QUEUES_PER_TENANT_MAX", 1)
    await desk.put_queue()
    with pytest.raises(FieldInvalid):
        await desk.put_queue(name="slow")
    await desk.put_queue(retries_max=3)
    await desk.put_queue(name="slow", tenant="globex")


@pytest.mark.guarantee("X8")
async def test_another_tenants_queue_is_not_there(desk: Desk) -> None:
    await desk.put_queue(tenant="globex")
    with pytest.raises(ResourceNotFound):
        await desk.queues.get("acme", "reviews")
    assert (await desk.queues.page("acme", size=10, token="")).queues == ()


async def test_queues_are_listed_page_by_page(desk: Desk) -> None:
    for tenant, name in (("globex", "a"), ("acme", "b"), ("acme", "a")):
        await desk.put_queue(tenant=tenant, name=name)
    first = await desk.queues.page(None, size=2, token="")
    assert names(first.queues) == [("acme", "a"), ("acme", "b")]
    last = await desk.queues.page(None, size=2, token=first.next_page_token)
    assert (names(last.queues), last.next_page_token) == ([("globex", "a")], "")
    with pytest.raises(FieldInvalid):
        await desk.queues.page(None, size=2, token="never given out")


@pytest.mark.guarantee("W7")
async def test_a_pause_and_its_end_are_written_down_once(desk: Desk) -> None:
    await desk.put_queue()
    await desk.pause()
    paused = await desk.rows.one("queues")
    await desk.pause()
    assert await desk.rows.one("queues") == paused
    assert paused["paused_at"] is not None
    await desk.put_queue(retries_max=3)
    assert (await desk.rows.one("queues"))["paused_at"] == paused["paused_at"]
    for _ in range(2):
        await desk.resume()
    assert (await desk.rows.one("queues"))["paused_at"] is None
    entries = await desk.rows.all("audit_entries")
    entries.sort(key=lambda entry: int(entry["entry_id"]))
    assert [(entry["action"], entry["reason"]) for entry in entries] == [
        ("PutQueue", ""),
        ("PauseQueue", "a deploy"),
        ("PutQueue", ""),
        ("ResumeQueue", "deployed"),
    ]


@pytest.mark.guarantee("X8")
async def test_another_tenants_queue_is_neither_paused_nor_resumed(desk: Desk) -> None:
    await desk.put_queue(tenant="globex")
    with pytest.raises(ResourceNotFound):
        await desk.pause()
    await desk.pause(tenant="globex")
    with pytest.raises(ResourceNotFound):
        await desk.resume()
    assert (await desk.rows.one("queues"))["paused_at"] is not None
