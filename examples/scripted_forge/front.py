"""The way in: every call is logged as it came, authenticated, perhaps made to fail, answered."""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from examples.scripted_forge.bodies import RefusedError
from examples.scripted_forge.connections import Connections, Reset
from examples.scripted_forge.journal import STORING, Fault, FaultKind, Journal, ReceivedRequest


@dataclass(frozen=True)
class Call:
    """One request as the handlers see it."""

    base_url: str
    raw_path: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


Handler = Callable[[Call], Response]
Endpoint = Callable[[Request], Awaitable[Response]]
Form = Callable[[RefusedError], Mapping[str, object]]
"""How a forge writes its refusals."""


def now() -> str:
    """The time of day as GitHub writes it."""
    return _utc().strftime("%Y-%m-%dT%H:%M:%SZ")


def json_answer(
    value: object, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """A JSON answer with GitHub's content type."""
    content_type = {"content-type": "application/json; charset=utf-8"}
    return Response(json.dumps(value), status, headers={**content_type, **headers})


class Front:
    """Turns handlers into endpoints of the forge's API or of the script that directs it."""

    def __init__(self, journal: Journal, token: str, connections: Connections) -> None:
        self._journal = journal
        self._token = token
        self._connections = connections

    def forge(self, handler: Handler, form: Form = RefusedError.form) -> Endpoint:
        """An endpoint of a forge: logged, and subject to scripted faults."""

        async def endpoint(request: Request) -> Response:
            received = ReceivedRequest(
                request.method,
                _raw_path(request),
                [(n.decode("latin-1"), v.decode("latin-1")) for n, v in request.headers.raw],
                await request.body(),
            )
            number = self._journal.log_request(received, at=_utc().isoformat())
            call = _call(request, received.raw_path, received.body)
            return await self._answer(number, request, call, handler, form)

        return endpoint

    def script(self, handler: Handler) -> Endpoint:
        """An endpoint for tests and demos: same token, not logged, never made to fail."""

        async def endpoint(request: Request) -> Response:
            call = _call(request, _raw_path(request), await request.body())
            return _handled(self._refuse_stranger(request) or handler, call, RefusedError.form)

        return endpoint

    async def _answer(
        self, number: int, request: Request, call: Call, handler: Handler, form: Form
    ) -> Response:
        stranger = self._refuse_stranger(request)
        fault = None if stranger else self._journal.take_fault(request.method, call.raw_path)
        if fault:
            response = await self._faulty(fault, call, handler, form)
        else:
            response = _handled(stranger or handler, call, form)
        status = None if isinstance(response, Reset) else response.status_code
        kind = fault.kind if fault else None
        self._journal.log_answer(number, status=status, fault=kind)
        response.headers["x-github-request-id"] = f"{number:08X}"
        return response

    async def _faulty(self, fault: Fault, call: Call, handler: Handler, form: Form) -> Response:
        honest = _handled(handler, call, form) if fault.kind in STORING else None
        await asyncio.sleep(fault.delay_ms / 1000)
        if fault.kind is FaultKind.SLOW_ANSWER and honest:
            return honest
        if fault.kind in (FaultKind.STORE_THEN_RESET, FaultKind.RESET_BEFORE_STORE):
            return Reset(self._connections)
        answer = json_answer(form(RefusedError(fault.status, "Scripted fault")), fault.status)
        if fault.body is not None:
            kind = "application/json" if fault.body.startswith(("{", "[")) else "text/html"
            answer = Response(fault.body, fault.status, media_type=kind)
        answer.headers.update(fault.headers)
        return answer

    def _refuse_stranger(self, request: Request) -> Handler | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() not in ("bearer", "token") or not token:
            return _refusing("Requires authentication")
        if not hmac.compare_digest(token.strip().encode(), self._token.encode()):
            return _refusing("Bad credentials")
        return None


def _refusing(message: str) -> Handler:
    def handler(_call: Call) -> Response:
        raise RefusedError(401, message)

    return handler


def _handled(handler: Handler, call: Call, form: Form) -> Response:
    # Handlers run on the event loop on purpose: one at a time, each commit before its answer.
    try:
        return handler(call)
    except RefusedError as refusal:
        return json_answer(form(refusal), refusal.status)


def _call(request: Request, raw_path: str, body: bytes) -> Call:
    base_url = str(request.base_url).rstrip("/")
    return Call(base_url, raw_path, request.path_params, request.query_params, body)


def _utc() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 # the forge is outside the suite: no database's clock


def _raw_path(request: Request) -> str:
    query = request.scope["query_string"]
    target: bytes = request.scope["raw_path"] + (b"?" + query if query else b"")
    return target.decode("ascii")
