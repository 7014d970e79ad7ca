"""Answers: a status from the forge's table, and a JSON body that says what happened.

Taken in: {outcome, delivery, first_delivery, matched, intents, reason}.
Refused: {reason, message, field, delivery}; `field` is empty unless one broke its rule. A forge
that must not see a refusal is answered 200 with the same, once it is recorded.
"""

from collections.abc import Mapping

from fencepost.errors import (
    BodyTooLarge,
    DeliveryConflict,
    FencepostError,
    FieldInvalid,
    Internal,
    ResourceNotFound,
    SchemaMismatch,
)
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from services.ingress.submissions import Taken
from services.ingress.webhooks.body import discard
from services.ingress.webhooks.forge import Answer, Forge
from shared.schema.states import DeliveryOutcome

UNKNOWN_ENDPOINT_STATUS = 404
FAULT_STATUS = 500
AWAY_STATUS = 503

SIGNATURE_INVALID = "SIGNATURE_INVALID"
BODY_TOO_SLOW = "BODY_TOO_SLOW"

CLOSE: Mapping[str, str] = {"Connection": "close"}
"""Sent where a body was not read to its end: what follows on the connection is not a request."""

_TAKEN = {
    DeliveryOutcome.ACCEPTED: Answer.ACCEPTED,
    DeliveryOutcome.DUPLICATE: Answer.DUPLICATE,
    DeliveryOutcome.IGNORED: Answer.IGNORED,
}


class EarlyAnswer(JSONResponse):
    """Sent before the body is read; then what still comes is let pass, or it would not be seen."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        request = Request(scope, receive)
        if "expect" not in request.headers:
            await discard(request.stream())
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def taken(forge: Forge, outcome: Taken, *, delivery_id: str) -> JSONResponse:
    """The delivery is durable, now or since its first submission."""
    return JSONResponse(
        {
            "outcome": outcome.outcome.value,
            "delivery": delivery_id,
            "first_delivery": outcome.first_delivery_id,
            "matched": outcome.matched.value,
            "intents": list(outcome.intent_ids),
            "reason": outcome.reason,
        },
        status_code=forge.statuses[_TAKEN[outcome.outcome]],
    )


def refused(
    forge: Forge, refusal: FencepostError, *, delivery_id: str, retry_after_s: int
) -> JSONResponse:
    """It was not taken in, or it is not known; a refusal that may pass says when to come again."""
    answer = _answer(refusal)
    headers: Mapping[str, str] = {}
    if answer is Answer.AWAY:
        headers = {"Retry-After": str(retry_after_s)}
    elif answer is Answer.TOO_LARGE:
        headers = CLOSE
    return JSONResponse(
        _refusal(refusal.reason, refusal.message, field=_field(refusal), delivery=delivery_id),
        status_code=FAULT_STATUS if answer is None else forge.statuses[answer],
        headers=headers,
    )


def unauthentic(forge: Forge) -> JSONResponse:
    """The proof is missing, doubled or made with another secret; nothing else was looked at."""
    refusal, status = _refusal(SIGNATURE_INVALID, forge.proof), forge.statuses[Answer.UNAUTHENTIC]
    if forge.proves_body:
        return JSONResponse(refusal, status)
    return EarlyAnswer(refusal, status, CLOSE)


def unknown_endpoint(refusal: ResourceNotFound) -> JSONResponse:
    """No such endpoint, or no single one; who sends webhooks has no key to look at."""
    sentence = f"There is no endpoint {refusal.name!a} of this forge: check the webhook's address."
    return JSONResponse(_refusal(refusal.reason, sentence), status_code=UNKNOWN_ENDPOINT_STATUS)


def away(refusal: FencepostError, *, retry_after_s: int) -> JSONResponse:
    """Whose it is cannot be told now, or nobody could be believed; nothing was looked at."""
    return JSONResponse(
        _refusal(refusal.reason, refusal.message),
        status_code=AWAY_STATUS,
        headers={"Retry-After": str(retry_after_s)},
    )


def too_slow(forge: Forge) -> JSONResponse:
    """The body stayed away, or came so slowly that its sender gave way."""
    return JSONResponse(
        _refusal(BODY_TOO_SLOW, "The body did not come in time: nothing was stored."),
        status_code=forge.statuses[Answer.TOO_SLOW],
        headers=CLOSE,
    )


def fault(error_id: str) -> JSONResponse:
    """A fault of ours, which only the log describes."""
    internal = Internal(error_id=error_id)
    return JSONResponse(_refusal(internal.reason, internal.message), status_code=FAULT_STATUS)


def _answer(refusal: FencepostError) -> Answer | None:
    match refusal:
        case FieldInvalid():
            return Answer.MALFORMED
        case DeliveryConflict():
            return Answer.CONFLICT
        case BodyTooLarge():
            return Answer.TOO_LARGE
        case Internal():
            return Answer.FAULT
        case SchemaMismatch():
            return Answer.AWAY
        case _:
            return Answer.AWAY if refusal.retriable else None


def _field(refusal: FencepostError) -> str:
    if isinstance(refusal, FieldInvalid) and refusal.violations:
        return refusal.violations[0][0]
    return ""


def _refusal(reason: str, message: str, *, field: str = "", delivery: str = "") -> dict[str, str]:
    return {"reason": reason, "message": message, "field": field, "delivery": delivery}
