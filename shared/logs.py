"""Logs: one line an event, JSON for machines or text for a terminal, never a secret (K2).

What libraries say through `logging` comes out the same way. Times are UTC.
"""

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import TextIO

import structlog
from opentelemetry import trace
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from shared.redaction import redactor, secrets_of
from shared.settings import RuntimeSettings

QUIETER: dict[str, int] = {
    # The pool tells each attempt; shared.database tells the change.
    "psycopg.pool": logging.CRITICAL,
    # So does shared.telemetry.
    "opentelemetry.exporter": logging.CRITICAL,
    "opentelemetry.sdk": logging.ERROR,
    "asyncio": logging.WARNING,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "uvicorn.access": logging.CRITICAL,
    "uvicorn.error": logging.ERROR,
}
FIRST_FIELDS = ("timestamp", "level", "service", "event", "trace_id", "span_id")
PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f]+")

log = structlog.get_logger(__name__)


def start(
    service: str,
    settings: RuntimeSettings,
    *,
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Sends every log of this process to stderr; `secrets` are masked beside those in settings."""
    out = stream or sys.stderr
    as_text = settings.log_format == "text" or (settings.log_format == "auto" and out.isatty())
    common = _common(service, [*secrets_of(settings), *secrets])
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        ProcessorFormatter(
            processors=[
                ProcessorFormatter.remove_processors_meta,
                *common,
                _text_line if as_text else _json_line,
            ]
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    for name, level in QUIETER.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught


def _common(service: str, secrets: list[str]) -> list[Processor]:
    clean = redactor(secrets)

    def name_service(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        cleaned = clean(event)
        assert isinstance(cleaned, dict)
        return cleaned

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_service,
        _name_trace,
        _tell_exception,
        redact,
    ]


def _name_trace(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _tell_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        event["exception"] = "".join(traceback.format_exception(error)).rstrip()
    return event


def _json_line(_: WrappedLogger, __: str, event: EventDict) -> str:
    ordered = {name: event.pop(name) for name in FIRST_FIELDS if name in event}
    return json.dumps({**ordered, **event}, ensure_ascii=False, default=str)


def _text_line(_: WrappedLogger, __: str, event: EventDict) -> str:
    time, level, service = event.pop("timestamp"), event.pop("level"), event.pop("service")
    told = _one_line(str(event.pop("event")))
    exception = event.pop("exception", "")
    event.pop("span_id", None)
    facts = "".join(f"  {name}={_fact(value)}" for name, value in event.items())
    line = f"{time[:23].replace('T', ' ')}Z {level.upper():<8} {service:<10} {told}{facts}"
    return f"{line}\n{exception}" if exception else line


def _fact(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", lambda found: repr(found[0])[1:-1], text)


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace_back: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace_back)
        return
    log.critical("the process fails", exc_info=error)
