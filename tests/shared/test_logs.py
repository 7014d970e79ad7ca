"""Logs: one line an event, traceable, readable, without secrets, whoever speaks (K2)."""

import io
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from pydantic import SecretStr

from shared import logs
from shared.settings import CallerSettings, LogFormat, LogLevel

KEY = "fp_abcdefgh1234_" + "C" * 43
Started = Callable[..., io.StringIO]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """What belongs to the whole process is as it was."""
    root, hook = logging.getLogger(), sys.excepthook
    handlers, level, config = root.handlers[:], root.level, structlog.get_config()
    levels = {name: logging.getLogger(name).level for name in logs.QUIETER}
    yield
    logging.captureWarnings(capture=False)
    root.handlers, sys.excepthook = handlers, hook
    root.setLevel(level)
    structlog.configure(**config)
    for name, was in levels.items():
        logging.getLogger(name).setLevel(was)


@pytest.fixture
def started() -> Started:
    """Starts the logs of a service and gives what it writes."""

    def start(
        log_format: LogFormat = "json", log_level: LogLevel = "info", *, terminal: bool = False
    ) -> io.StringIO:
        stream = Terminal() if terminal else io.StringIO()
        settings = CallerSettings(
            database_url=SecretStr("postgresql://role:canary-password@db/x"),
            api_key=SecretStr(KEY),
            grpc_address="127.0.0.1:0",
            admin_address="127.0.0.1:0",
            log_format=log_format,
            log_level=log_level,
        )
        logs.start("ingress", settings, secrets=["canary-extra"], stream=stream)
        return stream

    return start


def entries(stream: io.StringIO) -> list[dict[str, object]]:
    """The JSON lines."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_entry_is_one_json_line_with_the_usual_fields_first(started: Started) -> None:
    stream = started()
    structlog.get_logger("any").info("taken in", delivery="d-1", bytes=7)
    (entry,) = entries(stream)
    assert list(entry)[:4] == ["timestamp", "level", "service", "event"]
    assert str(entry.pop("timestamp")).endswith("Z")
    assert entry == {
        "level": "info",
        "service": "ingress",
        "event": "taken in",
        "delivery": "d-1",
        "bytes": 7,
    }


def test_an_entry_names_the_span_under_way(started: Started) -> None:
    stream = started()
    log = structlog.get_logger("any")
    with TracerProvider().get_tracer("test").start_as_current_span("work") as span:
        log.info("inside")
    log.info("outside")
    inside, outside = entries(stream)
    assert inside["trace_id"] == f"{span.get_span_context().trace_id:032x}"
    assert inside["span_id"] == f"{span.get_span_context().span_id:016x}"
    assert "trace_id" not in outside


def test_libraries_speak_the_same_way(started: Started) -> None:
    stream = started()
    logging.getLogger("alembic").warning("migrating to %s", "canary-password")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.warn("old use", stacklevel=1)
    migrating, old = entries(stream)
    assert migrating["event"] == "migrating to [redacted]"
    assert migrating["service"] == old["service"] == "ingress"
    assert "old use" in str(old["event"])


def test_what_we_say_ourselves_is_not_said_again_by_a_library(started: Started) -> None:
    stream = started()
    logging.getLogger("psycopg.pool").error("error connecting")
    logging.getLogger("uvicorn.access").error("GET /")
    assert stream.getvalue() == ""


def test_less_than_the_level_is_not_written(started: Started) -> None:
    stream = started(log_level="warning")
    structlog.get_logger("any").info("unseen")
    logging.getLogger("any").info("unseen")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_secret_is_written_wherever_it_stands(started: Started, log_format: LogFormat) -> None:
    stream = started(log_format)
    log = structlog.get_logger("any")
    log.info("a call with %s", KEY, header=f"Bearer {KEY}", nested={"list": [KEY.encode()]})
    log.info("positional %s", "canary-extra", password="canary-by-name")
    structlog.contextvars.bind_contextvars(caller="canary-extra")
    try:
        raise ValueError(f"cannot parse {KEY} of canary-password")
    except ValueError:
        log.exception("failed")
        logging.getLogger("library").exception("failed with %s", KEY)
    finally:
        structlog.contextvars.clear_contextvars()
    written = stream.getvalue()
    assert "canary" not in written
    assert "C" * 12 not in written
    assert "fp_abcdefgh1234_[redacted]" in written or "[redacted]" in written
    assert written.count("ValueError: cannot parse [redacted]") == 2


def test_an_exception_is_told_with_its_cause(started: Started) -> None:
    stream = started()
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise RuntimeError("second") from error
    except RuntimeError:
        structlog.get_logger("any").exception("failed")
    (entry,) = entries(stream)
    assert entry["level"] == "error"
    told = str(entry["exception"])
    assert told.index("KeyError: 'first'") < told.index("RuntimeError: second")


def test_an_exception_that_ends_the_process_is_logged(started: Started) -> None:
    stream = started()
    sys.excepthook(ValueError, ValueError("at the end"), None)
    (entry,) = entries(stream)
    assert entry["event"] == "the process fails"
    assert "ValueError: at the end" in str(entry["exception"])


@pytest.mark.parametrize(
    ("log_format", "terminal", "is_json"),
    [("auto", True, False), ("auto", False, True), ("json", True, True), ("text", False, False)],
)
def test_a_person_gets_text_and_a_machine_json(
    started: Started, log_format: LogFormat, terminal: bool, is_json: bool
) -> None:
    stream = started(log_format, terminal=terminal)
    structlog.get_logger("any").info("hello")
    assert stream.getvalue().startswith("{") == is_json


def test_text_reads_from_left_to_right_and_stays_on_its_line(started: Started) -> None:
    stream = started("text")
    structlog.get_logger("any").warning("two\nlines", queue="reviews", why='a "b"', bytes=7)
    (line,) = stream.getvalue().splitlines()
    time, told = line.split("Z ", 1)
    assert len(time) == len("2026-01-02 03:04:05.678")
    assert told.split() == [
        "WARNING",
        "ingress",
        "two\\nlines",
        "queue=reviews",
        'why="a',
        '\\"b\\""',
        "bytes=7",
    ]


def test_text_shows_an_exception_below_its_line(started: Started) -> None:
    stream = started("text")
    structlog.get_logger("any").error("failed", exc_info=ValueError("why"))
    first, *_, last = stream.getvalue().splitlines()
    assert first.endswith("failed")
    assert last == "ValueError: why"
