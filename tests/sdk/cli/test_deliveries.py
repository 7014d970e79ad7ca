"""`fencepost deliveries` against a served ingress: what came in, and why it made no work."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fencepost.cli.deliveries import PAGE_SIZE

from tests.database_server import as_service
from tests.rows import Row, Rows
from tests.sdk.cli.conftest import Place
from tests.sdk.cli.terminal import Shell, Told
from tests.services.ingress.served import Served as ServedIngress
from tests.services.ingress.served import served as served_ingress

LONG_AGO = datetime.now(UTC) - timedelta(hours=3)  # noqa: TID251 - far from both clocks' now

COPIES = """
    INSERT INTO fencepost.deliveries (delivery_id, tenant, endpoint, forge, forge_instance, event,
        content_type, body, body_sha256, outcome)
    SELECT n::text, tenant, endpoint, forge, forge_instance, event,
        content_type, body, body_sha256, outcome
    FROM fencepost.deliveries, generate_series(1, %s) AS n WHERE delivery_seq = %s
"""


@pytest.fixture(scope="module")
def ingress(place: Place) -> Iterator[ServedIngress]:
    with served_ingress(as_service(place.owner_url, "ingress")) as ingress:
        yield ingress


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """A tenant that no other test has."""
    return str(request.node.name).replace("_", "-")[:60]


@pytest.fixture
def cli(shell: Shell, ingress: ServedIngress, tenant: str) -> Shell:
    return shell.having(FENCEPOST_INGRESS=ingress.grpc, FENCEPOST_TENANT=tenant)


async def ignored(rows: Rows, tenant: str, **values: Any) -> Row:
    return await rows.delivery(
        tenant=tenant, outcome="ignored", reason="Nothing is wanted of it.", **values
    )


def listed(told: Told) -> list[str]:
    """Ids of the deliveries in a JSON answer."""
    assert told.code == 0, told
    return [each["delivery_id"] for each in json.loads(told.out)["deliveries"]]


async def test_each_is_a_line_with_its_work_or_the_reason_that_there_is_none(
    cli: Shell, rows: Rows, tenant: str
) -> None:
    made = await rows.delivery(tenant=tenant)
    work = await rows.intent(tenant=tenant, delivery_seq=made["delivery_seq"])
    none = await ignored(rows, tenant, event="push", event_action="")
    told = cli.run("deliveries")
    assert told.code == 0, told
    heading, second, first, *rest = told.out.splitlines()
    assert heading.split() == [
        "received", "endpoint", "event", "outcome", "why,", "or", "its", "work", "delivery", "id",
    ]  # fmt: skip
    assert " push " in second
    assert "ignored" in second
    assert "Nothing is wanted of it." in second
    assert second.rstrip().endswith(none["delivery_id"])
    assert "pull_request.opened" in first
    assert f"(intent {work.intent_id})" in first
    assert rest == ["", "The story of one: fencepost timeline DELIVERY_ID"]


async def test_a_program_gets_the_key_and_everything_else(
    cli: Shell, rows: Rows, tenant: str
) -> None:
    pull = await rows.change_request(tenant=tenant)
    identity = {name: getattr(pull, name) for name in ("forge_instance", "repo_id", "number")}
    made = await rows.delivery(tenant=tenant, **identity)
    work = await rows.intent(pull, delivery_seq=made["delivery_seq"])
    told = cli.run("deliveries", "--json")
    assert told.code == 0, told
    answer = json.loads(told.out)
    [delivery] = answer["deliveries"]
    assert answer["is_all"] is True
    assert delivery["intent_ids"] == [work.intent_id]
    assert delivery["key"] | identity == delivery["key"]
    assert delivery["key"]["head_sha"] == pull.head_sha
    assert delivery["key"]["suffix"] is None
    assert (delivery["outcome"], delivery["reason"]) == ("accepted", None)


async def test_filters_hold_together(cli: Shell, rows: Rows, tenant: str) -> None:
    wanted = await ignored(rows, tenant, endpoint="main", event="push")
    await ignored(rows, tenant, endpoint="main", event="ping")
    await ignored(rows, tenant, endpoint="other", event="push")
    await rows.delivery(tenant=tenant, endpoint="main", event="push")
    await ignored(rows, tenant, endpoint="main", event="push", received_at=LONG_AGO)
    asked = ("--endpoint", "main", "--outcome", "ignored", "--event", "push", "--since", "1h")
    assert listed(cli.run("deliveries", *asked, "--json")) == [wanted["delivery_id"]]


async def test_another_tenants_are_not_shown(cli: Shell, rows: Rows) -> None:
    await rows.delivery(tenant="somebody-else")
    assert listed(cli.run("deliveries", "--json")) == []
    told = cli.run("deliveries")
    assert told.out.startswith("Nothing came in that this asks for. `fencepost status` says when")


async def test_a_limit_is_kept_and_said(cli: Shell, rows: Rows, tenant: str) -> None:
    made = [await ignored(rows, tenant) for _ in range(3)]
    newest = [each["delivery_id"] for each in reversed(made)]
    assert listed(cli.run("deliveries", "--limit", "2", "--json")) == newest[:2]
    assert "There are older ones: say a larger --limit" in cli.run("deliveries", "--limit", "2").out
    assert "There are older ones" not in cli.run("deliveries", "--limit", "3").out


async def test_more_than_a_page_is_put_together(cli: Shell, rows: Rows, tenant: str) -> None:
    first = await ignored(rows, tenant)
    await rows.connection.execute(COPIES, [PAGE_SIZE, first["delivery_seq"]])
    shown = listed(cli.run("deliveries", "--limit", str(PAGE_SIZE + 2), "--json"))
    assert sorted(shown[:-1], key=int) == [str(n + 1) for n in range(PAGE_SIZE)]
    assert shown[-1] == first["delivery_id"]


@pytest.mark.parametrize("wrong", [("--outcome", "lost"), ("--since", "2"), ("--limit", "0")])
def test_a_filter_that_means_nothing_is_refused_by_name(cli: Shell, wrong: tuple[str, str]) -> None:
    told = cli.run("deliveries", *wrong)
    assert told.code == 2
    assert wrong[0] in told.err
