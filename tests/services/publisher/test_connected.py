"""Reviews and heads over a tenant's own connection."""

from typing import Any

import pytest
from fencepost.errors import (
    ConnectionDisabled,
    ConnectionMissing,
    FieldInvalid,
    ForgeUnavailable,
    ResourceNotFound,
    SealingKeyUnknown,
    SecretTampered,
)
from pydantic import SecretStr

from services.publisher.connections.open_operations import Connections
from services.publisher.connections.operations import ConnectionOperations, PutConnection
from services.publisher.forges.connect import GITHUB_ALONE, configured_access
from services.publisher.heads.operations import Resolved, ResolveHead, Resolving
from services.publisher.model import ForgeKind
from services.publisher.operations import Publishing
from shared.schema.states import ChangeRequestState
from tests.rows import NOW, ChangeRequest, Work
from tests.services.publisher.bench import Bench
from tests.services.publisher.commands import review_of
from tests.services.publisher.connections.conftest import KEY_1, KEY_2

API = {ForgeKind.GITHUB: "", ForgeKind.GITLAB: "/api/v4", ForgeKind.FORGEJO: "/api/v1"}


async def connect(bench: Bench, *, kind: ForgeKind = ForgeKind.GITHUB, **changes: Any) -> None:
    """Connects the tenant acme to the bench's forge, or changes its connection."""
    settings = sealed(bench).settings
    connections = Connections(settings.keyring, configured_access(settings))
    given = {
        "tenant": "acme",
        "key_id": "admin",
        "forge": kind,
        "forge_instance": "github.com",
        "base_url": bench.forge.url + API[kind],
        "token": bench.forge.token,
        "enable": False,
    }
    put = PutConnection(**{**given, **changes})
    await ConnectionOperations(bench.database, connections, settings).put(put)


def sealed(bench: Bench, key: str = KEY_1) -> Bench:
    """A bench whose settings hold a keyring and no token."""
    changes = {
        "sealing_keys": SecretStr(key),
        "forge_token": None,
        "forge_url": "http://127.0.0.1:9",
    }
    settings = bench.settings.model_copy(update=changes)
    return Bench(bench.rows, bench.forge, bench.database, settings)


def resolving(bench: Bench, *, time_limit_ms: int = 10_000) -> Resolving:
    connections = Connections(bench.settings.keyring, configured_access(bench.settings))
    forges = bench.forges(forge_read_attempts_max=1)
    return Resolving(bench.database, forges, connections, time_limit_ms=time_limit_ms)


def publishing(bench: Bench) -> Publishing:
    return sealed(bench).publishing()


def pull_of(work: Work) -> ChangeRequest:
    assert work.change_request is not None
    return work.change_request


def head_of(work: Work, **changes: Any) -> ResolveHead:
    pull = pull_of(work)
    names = ("tenant", "forge_instance", "repo_id", "number")
    return ResolveHead(**{**{name: getattr(pull, name) for name in names}, **changes})


async def resolved(bench: Bench, command: ResolveHead) -> Resolved:
    return await resolving(sealed(bench)).resolve(command)


@pytest.mark.guarantee("K1")
async def test_a_review_goes_over_the_tenants_own_connection(bench: Bench) -> None:
    work = await bench.work()
    await connect(bench)
    await publishing(bench).publish_review(review_of(work))
    [attempt] = await bench.attempts(work)
    assert attempt["status"] == "succeeded"
    assert len(bench.remote_reviews(work)) == 1


@pytest.mark.guarantee("K1", "P2b")
@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [
        ({"sealing_key_id": "lost"}, SealingKeyUnknown),
        ({"base_url": "http://127.0.0.1:9/evil"}, SecretTampered),
        ({"forge": "gitlab"}, SecretTampered),
    ],
)
async def test_what_does_not_open_sends_nothing_and_marks_nothing(
    bench: Bench, spoil: dict[str, str], refusal: type[Exception]
) -> None:
    work = await bench.work()
    await connect(bench)
    await bench.rows.change("connections", {"tenant": "acme"}, **spoil)
    with pytest.raises(refusal):
        await publishing(bench).publish_review(review_of(work))
    assert await bench.attempts(work) == []
    assert bench.requests(work) == []
    with pytest.raises(refusal):
        await resolved(bench, head_of(work))


@pytest.mark.guarantee("K1")
async def test_another_keyring_opens_nothing(bench: Bench) -> None:
    work = await bench.work()
    await connect(bench)
    with pytest.raises(SealingKeyUnknown):
        await sealed(bench, KEY_2).publishing().publish_review(review_of(work))
    assert await bench.attempts(work) == []


@pytest.mark.guarantee("X8")
async def test_nothing_goes_over_another_tenants_connection(bench: Bench) -> None:
    await connect(bench, tenant="globex")
    work = await bench.work()
    with pytest.raises(ConnectionMissing):
        await resolved(bench, head_of(work))
    assert bench.requests(work) == []


@pytest.mark.guarantee("I7", "K1")
@pytest.mark.parametrize("kind", list(API))
async def test_a_head_is_asked_for_over_the_tenants_own_connection(
    bench: Bench, kind: ForgeKind
) -> None:
    work = await bench.work()
    await connect(bench, kind=kind)
    answer = await resolved(bench, head_of(work))
    assert (answer.forge, answer.head.head_sha) == (kind, pull_of(work).head_sha)
    assert answer.head.state is ChangeRequestState.OPEN


@pytest.mark.guarantee("I7")
async def test_what_the_forge_denies_is_not_found_and_what_it_cannot_say_is_for_later(
    bench: Bench,
) -> None:
    work = await bench.work()
    await connect(bench)
    with pytest.raises(ResourceNotFound) as gone:
        await resolved(bench, head_of(work, repo_id=999_999_999))
    assert gone.value.kind == "change request"
    headers = {"retry-after": "7"}
    bench.forge.fault(
        "status", method="GET", path_regex="/repositories/", status=503, headers=headers
    )
    with pytest.raises(ForgeUnavailable, match="status 503") as later:
        await resolved(bench, head_of(work))
    assert later.value.retry_after_ms == 7000


@pytest.mark.guarantee("I7")
async def test_a_forge_that_is_silent_is_unavailable_before_the_caller_leaves(
    bench: Bench,
) -> None:
    work = await bench.work()
    await connect(bench)
    bench.forge.fault("slow_answer", method="GET", path_regex="/repositories/", delay_ms=1500)
    with pytest.raises(ForgeUnavailable, match="more than 200 ms"):
        await resolving(sealed(bench), time_limit_ms=200).resolve(head_of(work))


@pytest.mark.guarantee("I7", "P2b")
async def test_without_a_connection_nothing_is_marked_and_the_next_command_is_told(
    bench: Bench,
) -> None:
    work = await bench.work()
    with pytest.raises(ConnectionMissing) as missing:
        await publishing(bench).publish_review(review_of(work))
    assert "`fencepost connections put github.com --tenant acme`" in str(missing.value)
    assert await bench.attempts(work) == []
    assert bench.requests(work) == []
    for command in (head_of(work), head_of(work, forge_instance="elsewhere.test")):
        with pytest.raises(ConnectionMissing):
            await resolved(bench, command)


@pytest.mark.guarantee("P2b")
@pytest.mark.parametrize("kind", [ForgeKind.GITLAB, ForgeKind.FORGEJO])
async def test_where_no_review_can_be_written_yet_nothing_is_marked_and_the_key_is_named(
    bench: Bench, kind: ForgeKind
) -> None:
    work = await bench.work()
    await connect(bench, kind=kind)
    with pytest.raises(FieldInvalid) as refused:
        await publishing(bench).publish_review(review_of(work))
    assert [tuple(each) for each in refused.value.violations] == [("fence.key", GITHUB_ALONE)]
    assert await bench.attempts(work) == []
    assert bench.requests(work) == []


@pytest.mark.guarantee("I7", "P2b")
async def test_over_a_disabled_connection_nothing_is_marked_and_the_next_command_is_told(
    bench: Bench,
) -> None:
    work = await bench.work()
    await connect(bench)
    await bench.rows.change("connections", {"tenant": "acme"}, disabled_at=NOW)
    with pytest.raises(ConnectionDisabled) as disabled:
        await publishing(bench).publish_review(review_of(work))
    told = "`fencepost connections put github.com --tenant acme --enable`"
    assert told in str(disabled.value)
    assert await bench.attempts(work) == []
    with pytest.raises(ConnectionDisabled):
        await resolved(bench, head_of(work))
    assert bench.requests(work) == []
