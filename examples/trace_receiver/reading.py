"""Gives the received spans back over HTTP, and takes directions."""

import json
from dataclasses import asdict

import grpc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.trace_receiver.misbehaviour import Misbehaviour, Mode
from examples.trace_receiver.spans import SpanMemory


def build_app(memory: SpanMemory, misbehaviour: Misbehaviour) -> Starlette:
    """GET /spans[?trace_id=HEX], GET /traces, GET and POST /faults."""

    async def spans(request: Request) -> Response:
        found = memory.list_spans(request.query_params.get("trace_id"))
        return JSONResponse([asdict(span) for span in found])

    async def traces(_request: Request) -> Response:
        return JSONResponse(memory.list_traces())

    async def faults(_request: Request) -> Response:
        shown = {"remaining": misbehaviour.remaining, "met": misbehaviour.met}
        return JSONResponse({"mode": misbehaviour.mode, **shown})

    async def set_faults(request: Request) -> Response:
        try:
            misbehaviour.set(*_directions(await request.body()))
        except ValueError as error:
            return JSONResponse({"message": str(error)}, 422)
        return JSONResponse({})

    return Starlette(
        routes=[
            Route("/spans", spans, methods=["GET"]),
            Route("/traces", traces, methods=["GET"]),
            Route("/faults", faults, methods=["GET"]),
            Route("/faults", set_faults, methods=["POST"]),
        ]
    )


def _directions(body: bytes) -> tuple[Mode, grpc.StatusCode, int | None]:
    given = json.loads(body)
    if not isinstance(given, dict):
        raise ValueError("the body is not a JSON object")
    code = given.get("code", "UNAVAILABLE")
    if code not in grpc.StatusCode.__members__:
        raise ValueError(f"code {code!r} is no gRPC status")
    times = given.get("times")
    if times is not None and (not isinstance(times, int) or times < 1):
        raise ValueError(f"times {times!r} is no positive integer")
    return Mode(str(given.get("mode"))), grpc.StatusCode[code], times
