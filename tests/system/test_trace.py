"""One trace tells of the whole path; another process received it over the published OTLP."""

from collections.abc import Iterator, Sequence

import psycopg
import pytest
from psycopg import sql

from examples.demo.cast import WEBHOOK_SECRET, Cast, on_stage
from examples.demo.play import Play, Story
from examples.trace_receiver.client import ExportedSpan


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cast, Story]]:
    """The path played once, with its spans."""
    with on_stage(tmp_path_factory.mktemp("trace")) as cast:
        yield cast, Play(cast).perform()


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
