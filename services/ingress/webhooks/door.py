"""POST /webhooks/{forge}/{endpoint}: bounded, authentic, named, then taken in; one answer each.

Nothing is parsed before the signature over the raw bytes was checked, and no 2xx is sent without a
durable record.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import TypeVar

import structlog
from fencepost.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    FencepostError,
    FieldInvalid,
    Refusal,
    ResourceNotFound,
)
from opentelemetry.trace import SpanKind, StatusCode, Tracer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from services.ingress.batched import BatchedIntake
from services.ingress.body_rules import JSON
from services.ingress.endpoints.model import Endpoint, ForgeKind, Proof
from services.ingress.endpoints.snapshot import Endpoints
from services.ingress.large_bodies import apart
from services.ingress.operations import Intake
from services.ingress.refusals import tell_refused
from services.ingress.settings import IngressSettings
from services.ingress.submissions import Submission, SubmissionOutcome
from services.ingress.webhooks import answers, forgejo, gitea, github, gitlab
from services.ingress.webhooks.admission import Admission, HeldBytes
from services.ingress.webhooks.body import BodyTooSlowError, read_body
from services.ingress.webhooks.envelope import (
    Envelope,
    claimed_delivery_id,
    claimed_envelope,
    read_envelope,
)
from services.ingress.webhooks.forge import Check, Forge
from services.ingress.webhooks.senders import Senders
from shared import semantic
from shared.metrics import HTTP_SERVER_DURATION
from shared.telemetry import context_from, current_traceparent

FORGES = {
    (ForgeKind.FORGEJO, Proof.SIGNATURE): forgejo.FORGE,
    (ForgeKind.GITEA, Proof.SIGNATURE): gitea.FORGE,
    (ForgeKind.GITHUB, Proof.SIGNATURE): github.FORGE,
    (ForgeKind.GITLAB, Proof.SIGNATURE): gitlab.BY_SIGNATURE,
    (ForgeKind.GITLAB, Proof.TOKEN): gitlab.BY_TOKEN,
}
"""Each kind of forge with each proof that an endpoint may be registered for."""

ROUTES = (
    "/webhooks/{forge}/{endpoint}",
    "/webhooks/{forge}/{tenant}/{endpoint}",
    "/webhooks/{forge}",
    "/api/v1/webhooks/{forge}",
)
"""Without an endpoint's name: the forge's only one. Without a tenant: who first took the name."""

ERROR_ID_BYTES = 8

T = TypeVar("T")

log = structlog.get_logger(__name__)


class NotAuthenticError(Exception):
    """The proof is missing, doubled, not over these bytes, or too old."""


class WebhookDoor:
    """Answers webhooks; what it holds at once is bounded."""

    def __init__(
        self,
        endpoints: Endpoints,
        intake: Intake,
        batched: BatchedIntake,
        settings: IngressSettings,
        tracer: Tracer,
        *,
        may_serve: Callable[[], None],
    ) -> None:
        self._endpoints = endpoints
        self._intake = intake
        self._batched = batched
        self._settings = settings
        self._tracer = tracer
        self._may_serve = may_serve
        self._admission = Admission(
            requests_max=settings.webhook_concurrency_max,
            bytes_max=settings.webhook_buffer_bytes_max,
        )
        self._senders = Senders(
            senders_max=settings.webhook_senders_max,
            timeout_ms=settings.body_read_timeout_ms,
            silence_ms=settings.body_silence_timeout_ms,
        )

    def app(self) -> Starlette:
        """The application to serve."""
        return Starlette(
            routes=[Route(path, self.receive, methods=["POST"]) for path in ROUTES],
            exception_handlers={Exception: tell_fault},
        )

    async def receive(self, request: Request) -> JSONResponse:
        """One webhook: its span, its answer, its figures."""
        began_s = perf_counter()
        with self._tracer.start_as_current_span(
            semantic.WEBHOOK,
            context_from(request.headers.get("traceparent", "")),
            SpanKind.SERVER,
            {semantic.HTTP_REQUEST_METHOD: "POST", semantic.HTTP_ROUTE: ROUTES[0]},
        ) as span:
            response = await self._answer(request)
            span.set_attribute(semantic.HTTP_RESPONSE_STATUS_CODE, response.status_code)
            if response.status_code >= answers.FAULT_STATUS:
                span.set_status(StatusCode.ERROR)
        HTTP_SERVER_DURATION.labels(ROUTES[0], response.status_code).observe(
            perf_counter() - began_s
        )
        return response

    async def _answer(self, request: Request) -> JSONResponse:
        try:
            endpoint = await self._endpoint(request.path_params)
        except ResourceNotFound as unknown:
            return answers.unknown_endpoint(unknown)
        except FencepostError as refusal:
            return answers.away(refusal, retry_after_s=self._settings.retry_after_s)
        forge = FORGES[endpoint.forge, endpoint.proof]
        try:
            outcome = await self._take_in(request, endpoint, forge)
        except NotAuthenticError:
            tell_refused(endpoint.name, answers.SIGNATURE_INVALID, forge.proof)
            return answers.unauthentic(forge)
        except BodyTooSlowError:
            tell_refused(endpoint.name, answers.BODY_TOO_SLOW, "its body did not come in time")
            return answers.too_slow(forge)
        except FencepostError as refusal:
            tell_refused(endpoint.name, refusal.reason, str(refusal))
            return self._refused(request, forge, refusal)
        if isinstance(outcome, Refusal):
            return self._refused(request, forge, outcome)
        return answers.taken(
            forge, outcome, delivery_id=claimed_delivery_id(forge, request.headers)
        )

    async def _endpoint(self, path: Mapping[str, str]) -> Endpoint:
        """Whom the path names; what stands in the way of all is said before it is looked for."""
        self._may_serve()
        found = self._endpoints.of_forge(path["forge"], path.get("endpoint"), path.get("tenant"))
        return await self._in_time(found, outcome_unknown=False)

    def _refused(self, request: Request, forge: Forge, refusal: FencepostError) -> JSONResponse:
        return answers.refused(
            forge,
            refusal,
            delivery_id=claimed_delivery_id(forge, request.headers),
            retry_after_s=self._settings.retry_after_s,
        )

    async def _take_in(
        self, request: Request, endpoint: Endpoint, forge: Forge
    ) -> SubmissionOutcome:
        """What became of it; a refusal that will not pass is recorded first."""
        check = forge.check(request.headers, endpoint.secrets)
        if not forge.proves_body and not check.passed():
            raise NotAuthenticError
        with self._admission.holding() as held:
            body, too_large = await self._read(request, endpoint, check, held)
            with self._admission.handling():
                await apart(body, lambda: check.update(body))
                await self._believe(check)
                outcome = too_large or await self._submit(request, endpoint, forge, body)
                if isinstance(outcome, Refusal) and not outcome.retriable:
                    claimed = claimed_envelope(forge, request.headers, body)
                    refused = _submission(endpoint, forge, claimed, body)
                    await self._in_time(self._intake.keep_refused(refused, outcome))
        return outcome

    async def _read(
        self, request: Request, endpoint: Endpoint, check: Check, held: HeldBytes
    ) -> tuple[bytes, BodyTooLarge | None]:
        reads_to_end = FORGES[endpoint.forge, endpoint.proof].reads_to_end
        try:
            body = await read_body(
                request,
                held,
                self._senders,
                limit_bytes=endpoint.body_limit_bytes,
                pass_on=check.update if reads_to_end else None,
            )
        except BodyTooLarge as refusal:
            if not reads_to_end:
                raise
            tell_refused(endpoint.name, refusal.reason, str(refusal))
            return b"", refusal
        return body, None

    async def _believe(self, check: Check) -> None:
        """Raises NotAuthenticError; the clock is asked only about what was rightly signed."""
        if not check.passed():
            raise NotAuthenticError
        if check.signed_at_s is None:
            return
        age_s = await self._in_time(self._intake.seconds_since(check.signed_at_s))
        if abs(age_s) > self._settings.signature_window_s:
            raise NotAuthenticError

    async def _submit(
        self, request: Request, endpoint: Endpoint, forge: Forge, body: bytes
    ) -> SubmissionOutcome:
        try:
            envelope = read_envelope(forge, request.headers, body)
        except FieldInvalid as refusal:
            tell_refused(endpoint.name, refusal.reason, str(refusal))
            return refusal
        is_large = len(body) > self._settings.large_body_bytes
        return await self._in_time(
            self._batched.submit(_submission(endpoint, forge, envelope, body)),
            timeout_ms=self._settings.large_answer_timeout_ms if is_large else None,
        )

    async def _in_time(
        self, answered: Awaitable[T], *, outcome_unknown: bool = True, timeout_ms: int | None = None
    ) -> T:
        try:
            async with asyncio.timeout((timeout_ms or self._settings.answer_timeout_ms) / 1000):
                return await answered
        except TimeoutError:
            raise DatabaseUnavailable(outcome_unknown=outcome_unknown) from None


def _submission(endpoint: Endpoint, forge: Forge, envelope: Envelope, body: bytes) -> Submission:
    return Submission(
        endpoint=endpoint,
        delivery_id=envelope.delivery_id,
        event=envelope.event,
        content_type=envelope.content_type or JSON,
        body=body,
        traceparent=current_traceparent(),
        dedupes_by_body=not forge.proves_id,
    )


async def tell_fault(_request: Request, error: Exception) -> JSONResponse:
    """Logs what was not foreseen; the sender learns only where to look."""
    error_id = secrets.token_hex(ERROR_ID_BYTES)
    log.error("a webhook failed by a fault of ours", error_id=error_id, exc_info=error)
    return answers.fault(error_id)
