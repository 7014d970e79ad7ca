"""Starts, directs and questions a trace receiver, for tests and demos."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import httpx

from examples.child_process import ChildProcess


@dataclass(frozen=True, kw_only=True)
class SpanLink:
    """The span a link points to."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SpanEvent:
    """Something noted inside a span, such as an exception."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ExportedSpan:
    """A span as received: ids in hex, parent empty for a root, kind and status without prefix."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: str
    service_name: str
    start_ns: int
    end_ns: int
    status: str
    status_message: str
    attributes: dict[str, Any]
    links: tuple[SpanLink, ...]
    events: tuple[SpanEvent, ...]


class TraceReceiver:
    """One receiver, running elsewhere or as a child of this process; also a context manager."""

    def __init__(
        self, *, otlp_endpoint: str, http_url: str, process: ChildProcess | None = None
    ) -> None:
        self.otlp_endpoint = otlp_endpoint
        self.http_url = http_url
        self._process = process
        self._http = httpx.Client(base_url=http_url, timeout=30.0, trust_env=False)

    @classmethod
    def start(cls, *, grpc: str = "127.0.0.1:0", http: str = "127.0.0.1:0") -> Self:
        """Starts a receiver; otlp_endpoint is then an OTEL_EXPORTER_OTLP_ENDPOINT value."""
        process = ChildProcess("examples.trace_receiver", ["--grpc", grpc, "--http", http])
        address, http_url = process.ready_line.split(" ")[-2:]
        return cls(otlp_endpoint=f"http://{address}", http_url=http_url, process=process)

    def stop(self) -> int:
        """Ends the child with SIGTERM; returns its exit status, 0 where it was not ours."""
        self._http.close()
        return self._process.stop() if self._process else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def spans(self, trace_id: str | None = None) -> list[ExportedSpan]:
        """The spans of one trace (hex), or all, in order of arrival, repeats included."""
        query = {"trace_id": trace_id} if trace_id else {}
        return [_span(shown) for shown in self._get("/spans", query)]

    def trace_ids(self) -> list[str]:
        """The traces seen, in order of first arrival."""
        return [trace["trace_id"] for trace in self._get("/traces", {})]

    def misbehave(
        self,
        mode: Literal["none", "fail", "hang"],
        *,
        code: str = "UNAVAILABLE",
        times: int | None = None,
    ) -> None:
        """Fails or hangs the next exports, for so many of them or until told otherwise."""
        content = {"mode": mode, "code": code, "times": times}
        self._http.post("/faults", json=content).raise_for_status()

    def exports_met(self) -> int:
        """How many exports the present mode has failed or hung."""
        return int(self._get("/faults", {})["met"])

    def _get(self, path: str, query: dict[str, str]) -> Any:
        return self._http.get(path, params=query).raise_for_status().json()


def _span(shown: dict[str, Any]) -> ExportedSpan:
    links = tuple(SpanLink(**link) for link in shown.pop("links"))
    events = tuple(SpanEvent(**event) for event in shown.pop("events"))
    return ExportedSpan(links=links, events=events, **shown)
