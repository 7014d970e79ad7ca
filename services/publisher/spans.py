"""The spans of a publication: one for its whole path, one for the call to the forge."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from services.publisher.model import Fence, Slot
from shared import semantic

DUPLICATE = "duplicate"
HTTP_ERROR_STATUS_MIN = 400
DEFAULT_PORTS = {"http": 80, "https": 443}


@contextmanager
def publication_span(tracer: Tracer, *, fence: Fence, kind: str) -> Iterator[Span]:
    """Of one publication, from the claim to the record."""
    attributes: dict[str, str | int] = {
        semantic.TENANT: fence.tenant,
        semantic.KEY: fence.key,
        semantic.ACTION: fence.action,
        semantic.EPOCH: fence.epoch,
        semantic.PUBLICATION_KIND: kind,
    }
    with tracer.start_as_current_span(
        semantic.PUBLICATION,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def tell_attempt(span: Span, slot: Slot) -> None:
    """Names the attempt once it is claimed."""
    span.set_attribute(semantic.PUBLICATION_ID, slot.publication_id)
    span.set_attribute(semantic.PUBLICATION_ATTEMPT, slot.attempt)


def tell_outcome(span: Span, outcome: str) -> None:
    """Says what came of it: a status of attempts, or "duplicate"."""
    span.set_attribute(semantic.PUBLICATION_OUTCOME, outcome)


def tell_refusal(span: Span, reason: str) -> None:
    """Says why nothing was published, or nobody can tell."""
    span.set_attribute(semantic.ERROR_TYPE, reason)
    span.set_status(Status(StatusCode.ERROR, reason))


@contextmanager
def http_span(tracer: Tracer, *, method: str, url: str) -> Iterator[Span]:
    """Of one request to a forge."""
    parts = urlsplit(url)
    attributes: dict[str, str | int] = {
        semantic.HTTP_REQUEST_METHOD: method,
        semantic.URL_FULL: url,
        semantic.SERVER_ADDRESS: parts.hostname or "",
        semantic.SERVER_PORT: parts.port or DEFAULT_PORTS[parts.scheme],
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
    span.set_attribute(semantic.HTTP_RESPONSE_STATUS_CODE, status)
    if status >= HTTP_ERROR_STATUS_MIN:
        tell_refusal(span, str(status))


def tell_no_answer(span: Span, why: str) -> None:
    """That no answer came; of why, only the kind."""
    tell_refusal(span, why.partition(":")[0])
