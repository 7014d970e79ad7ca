"""The spans of a publication: one for its whole path, one for the call to the forge."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

PUBLICATION = "publication"
DUPLICATE = "duplicate"

_PROPAGATOR = TraceContextTextMapPropagator()


@contextmanager
def publication_span(tracer: Tracer, *, key: str, kind: str) -> Iterator[Span]:
    """Of one publication, from the claim to the record."""
    attributes = {"fencepost.key": key, "fencepost.publication.kind": kind}
    with tracer.start_as_current_span(
        PUBLICATION, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        yield span


def tell_attempt(span: Span, *, publication_id: int, attempt: int) -> None:
    """Names the attempt once it is claimed."""
    span.set_attribute("fencepost.publication.id", publication_id)
    span.set_attribute("fencepost.publication.attempt", attempt)


def tell_outcome(span: Span, outcome: str) -> None:
    """Says what came of it: a status of attempts, or "duplicate"."""
    span.set_attribute("fencepost.publication.outcome", outcome)


def tell_refusal(span: Span, reason: str) -> None:
    """Says why nothing was published, or nobody can tell."""
    span.set_attribute("error.type", reason)
    span.set_status(Status(StatusCode.ERROR, reason))


@contextmanager
def http_span(tracer: Tracer, *, method: str, url: str) -> Iterator[Span]:
    """Of one request to a forge."""
    parts = urlsplit(url)
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "url.full": url,
        "server.address": parts.hostname or "",
        "server.port": parts.port or (443 if parts.scheme == "https" else 80),
    }
    with tracer.start_as_current_span(
        method,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def tell_status(span: Span, status: int) -> None:
    """The HTTP status of the answer."""
    span.set_attribute("http.response.status_code", status)
    if status >= 400:
        span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", str(status))


def tell_no_answer(span: Span, why: str) -> None:
    """That no answer came."""
    span.set_status(Status(StatusCode.ERROR))
    span.set_attribute("error.type", why)


def current_traceparent() -> str:
    """W3C trace context of the current span, empty where there is none."""
    carrier: dict[str, str] = {}
    if get_current_span().get_span_context().is_valid:
        _PROPAGATOR.inject(carrier)
    return carrier.get("traceparent", "")
