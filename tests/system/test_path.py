"""The path, played on one stage: its trace, a second intent, and steps that are broken."""

import json
import re
import uuid
from collections.abc import Iterator, Sequence

import psycopg
import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import intents_pb2
from fencepost.dispatcher.v1.intents_pb2_grpc import IntentServiceStub
from psycopg import sql

from examples.demo.cast import PAYLOAD, TENANT, WEBHOOK_SECRET, Cast, Pull, Stage, prepared_stage
from examples.demo.ending import exit_status
from examples.demo.play import Play, Story, ask_timeline
from examples.trace_receiver.client import ExportedSpan
from services.suite import Suite
from shared.schema.grants import SERVICES, Service
from tests.waiting import until, until_sync

ACTION = "container-dispatch"
IN_VAIN_S = 0.5
"""What does not come is not waited for any longer."""


@pytest.fixture(scope="module")
def lasting_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The suite, a forge and a trace receiver; each test brings a pull request and a bot."""
    with prepared_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def stage(lasting_stage: Stage) -> Stage:
    """The stage with everybody alive."""
    revive(lasting_stage.suite)
    return lasting_stage


def revive(suite: Suite) -> None:
    """Starts anew what an earlier test has killed."""
    for service, running in suite._running.items():
        if running.ending:
            suite._running[service] = anew = suite._start_service(service)
            suite._parts.callback(suite._stop_service, anew)
    suite._wait_until_ready()


def numbered(number: int) -> Pull:
    """The real payload, as if it were of another pull request of the repository."""
    payload = json.loads(PAYLOAD.read_bytes())
    payload["number"] = payload["pull_request"]["number"] = number
    return Pull.of(json.dumps(payload).encode())


@pytest.fixture(scope="module")
def told(lasting_stage: Stage) -> tuple[Cast, Story]:
    """The path played once, with its spans."""
    revive(lasting_stage.suite)
    with lasting_stage.cast(Pull.of(PAYLOAD.read_bytes())) as cast:
        return cast, Play(cast).perform()


def named(spans: Sequence[ExportedSpan], name: str, service: str) -> list[ExportedSpan]:
    """Spans of this name and service, each once, in order of their beginning."""
    found = {s.span_id: s for s in spans if s.name == name and s.service_name == service}
    return sorted(found.values(), key=lambda span: span.start_ns)


def parent_of(span: ExportedSpan, spans: Sequence[ExportedSpan]) -> ExportedSpan:
    """The span it is a child of."""
    return next(each for each in spans if each.span_id == span.parent_span_id)


def ancestors(span: ExportedSpan, spans: Sequence[ExportedSpan]) -> list[str]:
    """Names from its parent up to the root, each with its service."""
    names: list[str] = []
    while span.parent_span_id:
        span = parent_of(span, spans)
        names.append(f"{span.service_name}: {span.name}")
    return names


def test_it_has_one_root_the_webhook(told: tuple[Cast, Story]) -> None:
    _, story = told
    roots = {span.span_id: span for span in story.spans if not span.parent_span_id}
    assert [(span.name, span.service_name) for span in roots.values()] == [("webhook", "ingress")]
    root = next(iter(roots.values()))
    assert root.attributes["fencepost.delivery.id"] == story.delivery_id


def test_the_hand_over_and_the_run_follow_the_webhook(told: tuple[Cast, Story]) -> None:
    _, story = told
    (run,) = named(story.spans, "run container-dispatch", "demo-bot")
    assert ancestors(run, story.spans) == ["dispatcher: intent.dispatch", "ingress: webhook"]
    assert run.attributes["fencepost.epoch"] == 1


@pytest.mark.guarantee("C7")
def test_each_flush_is_a_span_of_both_sides(told: tuple[Cast, Story]) -> None:
    _, story = told
    sent = named(story.spans, "checkpoint.flush", "demo-bot")
    stored = named(story.spans, "checkpoint.flush", "dispatcher")
    assert [span.attributes["fencepost.checkpoint.version"] for span in sent] == [1, 2, 3]
    assert [span.attributes["fencepost.checkpoint.version"] for span in stored] == [1, 2, 3]
    for ours, theirs in zip(sent, stored, strict=True):
        assert ancestors(theirs, story.spans)[1] == "demo-bot: checkpoint.flush"
        assert parent_of(parent_of(theirs, story.spans), story.spans) == ours
        assert parent_of(ours, story.spans).name == "run container-dispatch"
        for span in (ours, theirs):
            assert span.attributes["fencepost.outcome"] == "stored"
            assert span.attributes["fencepost.run.id"] == stored[0].attributes["fencepost.run.id"]
            assert span.attributes["fencepost.checkpoint.bytes"] > 0
            assert "fencepost.checkpoint.spans" in span.attributes


def test_the_publication_ends_it(told: tuple[Cast, Story]) -> None:
    cast, story = told
    (publication,) = named(story.spans, "publication", "publisher")
    above = ancestors(publication, story.spans)
    assert above[-3:] == [
        "demo-bot: run container-dispatch",
        "dispatcher: intent.dispatch",
        "ingress: webhook",
    ]
    assert publication.attributes["fencepost.publication.outcome"] == "succeeded"
    (call,) = [span for span in story.spans if span.parent_span_id == publication.span_id]
    assert call.kind == "CLIENT"
    assert cast.forge.url.rpartition(":")[2] == str(call.attributes["server.port"])


def test_the_pull_requests_address_tells_the_same_story(told: tuple[Cast, Story]) -> None:
    cast, story = told
    by_address = ask_timeline(cast, change_request_url=cast.pull.url)
    assert list(by_address.events) == list(ask_timeline(cast, delivery_id=story.delivery_id).events)
    assert [event.kind for event in by_address.events] == [event.kind for event in story.events]


def test_every_event_of_the_timeline_names_the_trace(told: tuple[Cast, Story]) -> None:
    _, story = told
    (trace_id,) = {span.trace_id for span in story.spans}
    named_by = {event.trace_id for event in story.events if event.trace_id}
    assert named_by == {trace_id}


TABLES = """
    SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')
"""


def holders(connection: psycopg.Connection, text: str) -> list[tuple[str, str]]:
    """Tables with a row that holds this text, whether as text or in bytes."""
    found = []
    for table in connection.execute(TABLES).fetchall():
        # A whole row as text shows its bytes as hex.
        query = sql.SQL("""
            SELECT count(*) FROM {} AS held
            WHERE position(%(text)s IN held::text) > 0 OR position(%(hex)s IN held::text) > 0
        """).format(sql.Identifier(*table))
        named = {"text": text, "hex": text.encode().hex()}
        (hits,) = connection.execute(query, named).fetchone() or (0,)
        if hits:
            found.append((table[0], table[1]))
    return found


def test_no_table_holds_the_webhooks_secret_or_the_forges_token(told: tuple[Cast, Story]) -> None:
    cast, story = told
    with psycopg.connect(cast.suite.owner_url) as connection:
        assert ("fencepost", "deliveries") in holders(connection, story.delivery_id)
        assert ("fencepost", "deliveries") in holders(connection, '"pull_request":')
        for secret in (WEBHOOK_SECRET, cast.forge.token):
            assert secret
            assert holders(connection, secret) == []


class Operator:
    """An operator's view of intents, over gRPC."""

    def __init__(self, cast: Cast) -> None:
        settings = ChannelSettings(
            target=cast.suite.addresses.grpc["dispatcher"],
            api_key=cast.suite.credentials["OPERATOR_API_KEY"],
            tenant=TENANT,
        )
        self.channel = connect(settings)
        self._intents = IntentServiceStub(self.channel)

    async def enqueue(self, key: key_pb2.Key) -> int:
        """Adds one intent of the bot's for this key."""
        new = intents_pb2.NewIntent(queue="reviews", key=key, action=ACTION, payload=b"{}")
        request = intents_pb2.EnqueueIntentsRequest(request_id=str(uuid.uuid4()), intents=[new])
        return (await self._intents.EnqueueIntents(request)).intent_ids[0]

    async def intent(self, intent_id: int) -> intents_pb2.Intent:
        """Reads one."""
        request = intents_pb2.GetIntentRequest(intent_id=intent_id)
        return (await self._intents.GetIntent(request)).intent


@pytest.mark.guarantee("L5")
async def test_a_second_intent_waits_without_an_attempt_and_ends_as_a_duplicate(
    stage: Stage,
) -> None:
    with stage.cast(numbered(21), bot="tests.system.bots.waiting") as cast:
        operator = Operator(cast)
        async with operator.channel:
            first = Play(cast).post_once()
            leased = intents_pb2.INTENT_PLACE_LEASED

            async def runs() -> key_pb2.Key | None:
                intent = await operator.intent(first)
                return intent.key if intent.place == leased else None

            key = await until(runs, what="the first intent to be held by the bot")
            second = await operator.enqueue(key)

            async def waits() -> intents_pb2.Intent | None:
                intent = await operator.intent(second)
                return intent if intent.place == intents_pb2.INTENT_PLACE_WAITING else None

            put_back = await until(waits, what="the second intent to be put back")
            assert put_back.status == intents_pb2.INTENT_STATUS_OPEN
            assert put_back.attempts == 0

            cast.let_go()

            async def ended() -> intents_pb2.Intent | None:
                intent = await operator.intent(second)
                return intent if intent.status != intents_pb2.INTENT_STATUS_OPEN else None

            duplicate = await until(ended, what="the second intent to be settled")
            assert duplicate.status == intents_pb2.INTENT_STATUS_DUPLICATE
            assert duplicate.attempts == 0
            assert (await operator.intent(first)).status == intents_pb2.INTENT_STATUS_SUCCEEDED

            third = await operator.enqueue(key)

            async def acknowledged() -> bool:
                intent = await operator.intent(third)
                return intent.status == intents_pb2.INTENT_STATUS_DUPLICATE

            await until(acknowledged, what="a third intent to be acknowledged at once")


def bot_said(cast: Cast, words: str) -> None:
    """Waits for words in the bot's log: why what was awaited in vain did not come."""
    until_sync(lambda: words in cast.bot_log.read_text(), what=f"the bot to say: {words}")


def test_an_unsigned_webhook_ends_it_with_1(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage.cast(numbered(11)) as cast:
        assert exit_status(cast, Play(cast, signed=False)) == 1
    assert "answered 401" in capsys.readouterr().err


def test_a_publication_without_the_fence_ends_it_with_1(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage.cast(numbered(12), bot="tests.system.bots.without_a_fence") as cast:
        assert exit_status(cast, Play(cast, within_s=IN_VAIN_S)) == 1
        bot_said(cast, "is no longer yours at epoch 2")
    assert "in vain for the publication" in capsys.readouterr().err


def test_a_second_review_ends_it_with_1(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    with stage.cast(numbered(13), bot="tests.system.bots.posting_twice") as cast:
        assert exit_status(cast, Play(cast)) == 1
    assert "the forge must hold one review" in capsys.readouterr().err
    assert len(stage.forge.reviews(cast.pull.repo_name, 13)) == 2


def test_a_lost_flush_ends_it_with_1(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    with stage.cast(numbered(14), bot="tests.system.bots.losing_a_flush") as cast:
        assert exit_status(cast, Play(cast, traced_within_s=IN_VAIN_S)) == 1
    said = capsys.readouterr().err
    assert "FAILED: 3 flushes must be durable." in said
    assert "FAILED: the trace must have 3 checkpoint.flush of dispatcher below" in said


def test_no_review_rests_on_a_flush_that_was_lost(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage.cast(numbered(15), bot="tests.system.bots.losing_the_last_flush") as cast:
        assert exit_status(cast, Play(cast, within_s=IN_VAIN_S)) == 1
        bot_said(cast, "Checkpoint 3 is not durable")
    assert "in vain for the publication" in capsys.readouterr().err
    assert stage.forge.reviews(cast.pull.repo_name, 15) == []


GONE_AT_COMMIT = """
    CREATE FUNCTION fencepost.forget() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        DELETE FROM fencepost.flushes WHERE run_id = NEW.run_id AND flush_id = NEW.flush_id;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER forget AFTER INSERT ON fencepost.flushes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.version = 2)
    EXECUTE FUNCTION fencepost.forget();
"""


@pytest.fixture
def forgetful_database(stage: Stage) -> Iterator[None]:
    """Answers that the second flush is written and has forgotten it once it is committed."""
    with psycopg.connect(stage.suite.owner_url, autocommit=True) as connection:
        connection.execute(GONE_AT_COMMIT)
        yield
        connection.execute("DROP FUNCTION fencepost.forget CASCADE")


def test_a_flush_that_both_sides_tell_of_and_is_not_stored_ends_it_with_1(
    stage: Stage, forgetful_database: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage.cast(numbered(16)) as cast:
        assert exit_status(cast, Play(cast, traced_within_s=30)) == 1
    assert re.findall(r"FAILED: (.+)\.", capsys.readouterr().err) == [
        "3 flushes must be durable",
        "1 of what must hold did not",
    ]


@pytest.mark.parametrize("service", SERVICES)
def test_a_dead_service_ends_it_with_1_and_is_named(
    stage: Stage, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage.cast(numbered(20 + SERVICES.index(service))) as cast:
        stage.suite._running[service].kill()
        assert exit_status(cast, Play(cast)) == 1
    assert f"FAILED: {service} was killed by SIGKILL" in capsys.readouterr().err


class LastBreath(Play):
    """The dispatcher dies when all is done, before anybody has looked at its figures."""

    def perform(self) -> Story:
        story = super().perform()
        self.cast.suite._running["dispatcher"].kill()
        return story


def test_a_service_that_dies_at_the_end_is_named_too(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage.cast(numbered(30)) as cast:
        assert exit_status(cast, LastBreath(cast)) == 1
    assert "FAILED: dispatcher was killed by SIGKILL" in capsys.readouterr().err
