"""Status, timelines and submitting: for a person in a terminal, and for a program."""

import asyncio
import json
from collections.abc import Iterator
from time import monotonic

import pytest

from tests.database_proxy import DatabaseProxy
from tests.database_server import as_service
from tests.rows import Rows, from_now
from tests.sdk.cli.conftest import Place
from tests.sdk.cli.terminal import COLUMNS, Shell
from tests.services.ingress.pulls import ENDPOINT, TENANT
from tests.services.ingress.registered import register
from tests.services.ingress.served import Served as ServedIngress
from tests.services.ingress.served import served as served_ingress
from tests.services.watchdog.served import served_beside
from tests.services.watchdog.timeline.stories import published_story

SILENCE_TOLD_WITHIN_S = 8.0
"""With room for a busy machine. One try ends after 1.5 s; four of them, as programs do, after 9."""

PING = b'{"zen": "Keep it logically awesome.", "hook_id": 1}'


@pytest.mark.guarantee("W5")
async def test_the_status_tells_figures_and_what_is_not_observable(
    shell: Shell, rows: Rows
) -> None:
    tenant = ("--tenant", "nobody-yet")
    document = json.loads(shell.run("status", *tenant, "--json").out)
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert figures["intents_ready"] == {
        "name": "intents_ready",
        "labels": {},
        "description": "Intents that a worker could take now.",
        "value": 0.0,
        "unobservable_reason": None,
        "at": figures["intents_ready"]["at"],
    }
    assert figures["last_delivery_age_seconds"]["value"] is None
    reason = figures["last_delivery_age_seconds"]["unobservable_reason"]
    assert reason == "no delivery has been stored yet"
    told = shell.run_in_terminal("status", *tenant)
    assert told.code == 0
    [line] = [line for line in told.out.splitlines() if line.startswith("last_delivery_age")]
    assert line.split(maxsplit=2)[1] == "unknown"
    assert f"not observable: {reason}, since" in line
    assert max(len(line) for line in told.out.splitlines()) <= COLUMNS


@pytest.mark.parametrize("command", [("status",), ("timeline", "a-delivery")])
async def test_a_silent_database_is_named_at_once(
    shell: Shell, place: Place, command: tuple[str, ...]
) -> None:
    async with (
        DatabaseProxy.before(as_service(place.owner_url, "watchdog")) as proxy,
        served_beside(proxy.url(), {}) as watchdog,
    ):
        proxy.freeze()
        began_s = monotonic()
        told = await asyncio.to_thread(shell.having(FENCEPOST_WATCHDOG=watchdog.grpc).run, *command)
        assert monotonic() - began_s < SILENCE_TOLD_WITHIN_S
        await proxy.restore()
    assert told.code == 3
    assert told.err.startswith("DATABASE_UNAVAILABLE: The database does not answer")


async def test_a_long_time_is_told_in_words_too(shell: Shell, rows: Rows) -> None:
    await rows.delivery(tenant="aged", received_at=from_now(-7_512_000))
    told = shell.run("status", "--tenant", "aged")
    assert "(2 h 5 min)" in told.out


async def test_a_story_is_told_for_people_and_for_programs(shell: Shell, rows: Rows) -> None:
    work = await published_story(rows, tenant="stories")
    pull = work.change_request
    assert pull is not None
    told = shell.run_in_terminal("timeline", f"{pull.url}/files")
    lines = [line.rstrip() for line in told.out.splitlines()]
    assert told.code == 0
    assert lines[0] == f"{pull.repo_name}#7"
    assert lines[2].startswith("  Done at ")
    assert max(map(len, lines)) <= COLUMNS
    text = " ".join(told.out.split())
    assert "Delivery d-1 (pull_request opened) came in at endpoint github: accepted" in text
    assert f"Intent {work.intent_id} succeeded." in text
    assert f";{pull.url}#pullrequestreview-80\x1b\\" in told.raw
    assert lines[-1] == "Trace  0af7651916cd43dd8448eb211c80319c"
    document = json.loads(shell.run("timeline", "d-1", "--json", "--tenant", "stories").out)
    assert list(document) == ["title", "standing", "truncated", "events", "next_commands"]
    assert document["events"][0]["kind"] == "delivery.accepted"
    assert document["events"][0]["ids"] == {"delivery_id": "d-1", "endpoint": "github"}
    assert document["next_commands"] == [f"fencepost timeline {pull.url}"]
    without_scheme = pull.url.removeprefix("https://")
    same = json.loads(shell.run("timeline", without_scheme, "--json").out)
    assert same["events"] == document["events"]
    with_ids = shell.run("timeline", pull.url, "--ids").out
    assert f"intent.succeeded intent_id={work.intent_id}" in with_ids


async def test_that_nothing_was_received_is_told_with_the_way_on(shell: Shell, rows: Rows) -> None:
    await rows.delivery(tenant="quiet", received_at=from_now(-3 * 3_600_000))
    told = shell.run("timeline", "lost-1", "--tenant", "quiet")
    assert told.code == 0
    assert "Nothing was received for delivery lost-1." in told.out
    assert "Endpoint github was last heard at" in told.out
    assert "(3 h ago)." in told.out
    assert (
        "Next   fencepost submit PAYLOAD.json --endpoint github --event pull_request "
        "--delivery-id lost-1\n" in told.out
    )


async def test_what_others_wrote_cannot_move_the_terminal(shell: Shell, rows: Rows) -> None:
    await rows.delivery(
        tenant="tricky", delivery_id="d-1", event="x\x1b[2Jy", outcome="ignored", reason="draft"
    )
    told = shell.run_in_terminal("timeline", "d-1", "--tenant", "tricky")
    assert "\x1b" not in told.out
    assert r"x\x1b[2Jy" in told.out


def test_an_address_that_is_none_is_refused_by_its_field(shell: Shell) -> None:
    told = shell.run("timeline", "ssh://host/x", "--json")
    assert told.code == 1
    error = json.loads(told.out)["error"]
    assert (error["reason"], error["code"]) == ("FIELD_INVALID", "INVALID_ARGUMENT")
    assert "change_request_url" in error["message"]


@pytest.fixture(scope="module")
def ingress(place: Place) -> Iterator[ServedIngress]:
    register(place.owner_url, ENDPOINT)
    with served_ingress(as_service(place.owner_url, "ingress")) as ingress:
        yield ingress


def test_a_payload_is_handed_in_once_and_its_story_can_be_read(
    shell: Shell, ingress: ServedIngress
) -> None:
    (shell.folder / "ping.json").write_bytes(PING)
    shell = shell.having(FENCEPOST_INGRESS=ingress.grpc, FENCEPOST_TENANT=TENANT)
    submit = ("submit", "ping.json", "--endpoint", "github", "--event", "ping")
    first = shell.run(*submit, "--delivery-id", "p-1")
    assert first.code == 0, first
    assert first.out == (
        "Delivery p-1 was recorded and makes no work (ping).\nNext   fencepost timeline p-1\n"
    )
    again = shell.run(*submit, "--delivery-id", "p-1", "--json")
    assert json.loads(again.out) == {
        "delivery_id": "p-1",
        "outcome": "duplicate",
        "matched": "delivery_id",
        "first_delivery_id": "p-1",
        "intent_ids": [],
        "reason": "ping",
    }
    story = json.loads(shell.run("timeline", "p-1", "--json").out)
    assert [event["kind"] for event in story["events"]] == ["delivery.ignored"]
    stdin = shell.run("submit", "-", *submit[2:], "--json", stdin=PING)
    assert json.loads(stdin.out)["outcome"] == "ignored"


def test_a_submission_that_cannot_be_is_refused_in_words(
    shell: Shell, ingress: ServedIngress
) -> None:
    shell = shell.having(FENCEPOST_INGRESS=ingress.grpc, FENCEPOST_TENANT=TENANT)
    (shell.folder / "other.json").write_bytes(b'{"zen": "another body"}')
    (shell.folder / "empty").touch()
    options = ("--endpoint", "github", "--event", "ping", "--delivery-id", "p-2")
    shell.run("submit", "-", *options, stdin=PING)
    conflict = shell.run("submit", "other.json", *options)
    assert conflict.code == 1
    assert conflict.err.startswith("DELIVERY_CONFLICT: Delivery 'p-2' of endpoint 'github'")
    unknown = shell.run("submit", "-", "--endpoint", "gitlab", *options[2:], stdin=PING)
    assert unknown.code == 1
    assert unknown.err.startswith("RESOURCE_NOT_FOUND: There is no endpoint 'gitlab'")
    for file in ("empty", "nothing"):
        assert shell.run("submit", file, *options).code == 2
