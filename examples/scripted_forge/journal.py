"""What was asked of the forge, kept as it came, and the faults scripted for what is to come."""

import json
import re
import sqlite3
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256


class FaultKind(StrEnum):
    """How an answer goes wrong; the store_then kinds and slow_answer do what was asked first."""

    STORE_THEN_502 = "store_then_502"
    STORE_THEN_RESET = "store_then_reset"
    RESET_BEFORE_STORE = "reset_before_store"
    STATUS = "status"
    SLOW_ANSWER = "slow_answer"


STORING = frozenset({FaultKind.STORE_THEN_502, FaultKind.STORE_THEN_RESET, FaultKind.SLOW_ANSWER})


@dataclass(frozen=True)
class Fault:
    """A scripted fault: for which requests, what happens, after how long, how many more times."""

    method: str
    path_regex: str
    kind: FaultKind
    status: int
    headers: dict[str, str]
    body: str | None
    delay_ms: int
    remaining: int

    def matches(self, method: str, raw_path: str) -> bool:
        """Whether this request is meant."""
        return self.method == method and re.search(self.path_regex, raw_path) is not None


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it came over the wire; raw_path includes the query."""

    method: str
    raw_path: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class LoggedRequest:
    """A logged request; no answered_status means none was sent: a reset, or still under way."""

    number: int
    received_at: str
    request: ReceivedRequest
    answered_status: int | None
    fault: str | None


class Journal:
    """The statements over requests and faults; every write is durable when it returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def log_request(self, request: ReceivedRequest, *, at: str) -> int:
        """Logs a request on arrival, its credential as a digest, and returns its number."""
        row = self._connection.execute(
            "INSERT INTO request (received_at, method, raw_path, headers, body)"
            " VALUES (?, ?, ?, ?, ?) RETURNING number",
            (
                *(at, request.method, request.raw_path),
                *(json.dumps(_without_credential(request.headers)), request.body),
            ),
        ).fetchall()[0]
        return int(row["number"])

    def log_answer(self, number: int, *, status: int | None, fault: FaultKind | None) -> None:
        """Adds what the request is answered with, before the answer leaves."""
        self._connection.execute(
            "UPDATE request SET answered_status = ?, fault = ? WHERE number = ?",
            (status, fault, number),
        )

    def list_requests(self, *, after: int) -> list[LoggedRequest]:
        """The requests numbered above this, in order of arrival."""
        rows = self._connection.execute(
            "SELECT * FROM request WHERE number > ? ORDER BY number", (after,)
        )
        return [_logged(row) for row in rows]

    def add_fault(self, fault: Fault) -> None:
        """Scripts a fault; of several that match, the one scripted first is used up first."""
        self._connection.execute(
            "INSERT INTO fault (method, path_regex, kind, status, headers, body, delay_ms,"
            " remaining) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(fault.method, fault.path_regex, fault.kind, fault.status),
                *(json.dumps(fault.headers), fault.body, fault.delay_ms, fault.remaining),
            ),
        )

    def list_faults(self) -> list[Fault]:
        """The faults still to come."""
        return [_fault(row) for row in self._pending_faults()]

    def take_fault(self, method: str, raw_path: str) -> Fault | None:
        """The fault for this request, used up once by this call."""
        for row in self._pending_faults():
            fault = _fault(row)
            if fault.matches(method, raw_path):
                self._connection.execute(
                    "UPDATE fault SET remaining = remaining - 1 WHERE number = ?", (row["number"],)
                )
                return fault
        return None

    def clear_faults(self) -> None:
        """Forgets every scripted fault."""
        self._connection.execute("DELETE FROM fault")

    def _pending_faults(self) -> list[sqlite3.Row]:
        return self._connection.execute(
            "SELECT * FROM fault WHERE remaining > 0 ORDER BY number"
        ).fetchall()


def credential_digest(value: str) -> str:
    """What stands in the log for an Authorization header's value."""
    return "sha256:" + sha256(value.encode("latin-1")).hexdigest()


def _without_credential(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        (name, credential_digest(value) if name.lower() == "authorization" else value)
        for name, value in headers
    ]


def _logged(row: sqlite3.Row) -> LoggedRequest:
    headers = [(name, value) for name, value in json.loads(row["headers"])]
    request = ReceivedRequest(row["method"], row["raw_path"], headers, row["body"])
    return LoggedRequest(
        row["number"], row["received_at"], request, row["answered_status"], row["fault"]
    )


def _fault(row: sqlite3.Row) -> Fault:
    return Fault(
        method=row["method"],
        path_regex=row["path_regex"],
        kind=FaultKind(row["kind"]),
        status=row["status"],
        headers=json.loads(row["headers"]),
        body=row["body"],
        delay_ms=row["delay_ms"],
        remaining=row["remaining"],
    )
