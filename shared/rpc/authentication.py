"""Who calls: the bearer credential against the stored keys, cached for a moment (X2).

One lookup runs at a time and asks for every key that is wanted meanwhile, so a flood of made-up
keys costs one connection, never the pool. While the database is away a cached answer serves until
its time, then the call fails as DATABASE_UNAVAILABLE: nobody is told that a good key is unknown.
Before a silent database a call waits for its own time only, not for the lookup before its own.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from fencepost.errors import DatabaseUnavailable, KeyRevoked, KeyUnknown
from fencepost.metadata import AUTHORIZATION, BEARER, TENANT

from shared.credentials import parse, secret_digest
from shared.rpc.caller import Caller, on_behalf_of, scope_of
from shared.rpc.key_store import KeyRow

T = TypeVar("T")
Lookup = Callable[[Sequence[str]], Awaitable[Sequence[KeyRow]]]

ENTRIES_MAX = 10_000
"""Cached keys; unknown ones are counted apart, so that they cannot push out known ones."""

KEYS_ASKED_MAX = 1_000
"""Keys in one lookup."""


@dataclass(frozen=True, slots=True)
class _Entry:
    row: KeyRow | None
    caller: Caller | None
    fresh_until: float


class Authenticator:
    """Turns call metadata into a caller; raises KeyUnknown, KeyRevoked, DatabaseUnavailable."""

    def __init__(self, lookup: Lookup, *, cache_ms: int, lookup_timeout_ms: int) -> None:
        self._lookup = lookup
        self._cache_s = cache_ms / 1000
        self._lookup_timeout_s = lookup_timeout_ms / 1000
        # What was sent and proven, whole. A dict compares only what has the same keyed hash, so
        # nothing about a credential can be told from how long a look-up takes.
        self._proven: dict[str | bytes, _Entry] = {}
        self._known: dict[str, _Entry] = {}
        self._unknown: dict[str, _Entry] = {}
        self._wanted: dict[str, asyncio.Future[_Entry]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def caller(self, metadata: Mapping[str, str | bytes]) -> Caller:
        """The caller that the metadata proves, with the tenant it names."""
        sent = metadata.get(AUTHORIZATION)
        entry = self._proven.get(sent) if sent is not None else None
        if entry is None or monotonic() >= entry.fresh_until:
            entry = await self._prove(sent)
        assert entry.caller is not None
        named_tenant = metadata.get(TENANT)
        return on_behalf_of(entry.caller, str(named_tenant)) if named_tenant else entry.caller

    async def ended(self, key_ids: Iterable[str]) -> set[str]:
        """Those of these keys that no longer hold, asked anew and not from the cache."""
        asked = {key_id: self._ask_for(key_id) for key_id in key_ids}
        entries = await asyncio.gather(*asked.values())
        return {
            key_id
            for key_id, entry in zip(asked, entries, strict=True)
            if entry.row is None or entry.row.ended
        }

    async def _prove(self, sent: str | bytes | None) -> _Entry:
        key_id, secret = _credential(sent)
        entry = self._known.get(key_id) or self._unknown.get(key_id)
        if entry is None or monotonic() >= entry.fresh_until:
            entry = await self._ask_for(key_id)
        _require_proof(entry, secret)
        assert sent is not None
        _keep(self._proven, sent, entry)
        return entry

    async def _ask_for(self, key_id: str) -> _Entry:
        answer = self._wanted.get(key_id)
        if answer is None:
            answer = self._wanted[key_id] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="key lookup")
        done, _ = await asyncio.wait([answer], timeout=self._lookup_timeout_s)
        if not done:
            raise DatabaseUnavailable
        return answer.result()

    async def _ask(self) -> None:
        try:
            while self._wanted:
                key_ids = list(self._wanted)[:KEYS_ASKED_MAX]
                answers = {key_id: self._wanted.pop(key_id) for key_id in key_ids}
                await self._answer(answers)
        finally:
            self._asking = None

    async def _answer(self, answers: dict[str, asyncio.Future[_Entry]]) -> None:
        # Counted from before the question: the answer may be as old as that.
        fresh_until = monotonic() + self._cache_s
        try:
            rows = {row.key_id: row for row in await self._lookup(list(answers))}
            for key_id, answer in answers.items():
                entry = _entry(rows.get(key_id), fresh_until)
                self._remember(key_id, entry)
                answer.set_result(entry)
        except Exception as error:  # noqa: BLE001  (each waiting call fails with what went wrong)
            if isinstance(error, DatabaseUnavailable):
                # Whoever came meanwhile would wait as long for the same answer.
                answers.update(self._wanted)
                self._wanted.clear()
            for answer in answers.values():
                answer.set_exception(error)
                # A caller that is gone by now leaves nobody to look at it.
                answer.exception()
        finally:
            for answer in answers.values():
                answer.cancel()

    def _remember(self, key_id: str, entry: _Entry) -> None:
        self._known.pop(key_id, None)
        self._unknown.pop(key_id, None)
        _keep(self._unknown if entry.row is None else self._known, key_id, entry)


def _keep(cache: dict[T, _Entry], name: T, entry: _Entry) -> None:
    if len(cache) >= ENTRIES_MAX:
        cache.pop(next(iter(cache)))
    cache[name] = entry


def _credential(sent: str | bytes | None) -> tuple[str, str]:
    if not isinstance(sent, str) or not sent.startswith(BEARER):
        raise KeyUnknown
    credential = parse(sent[len(BEARER) :])
    if credential is None:
        raise KeyUnknown
    return credential


def _require_proof(entry: _Entry, secret: str) -> None:
    row = entry.row
    # First the secret: that a key was revoked is told only to who holds it.
    if row is None or not hmac.compare_digest(row.secret_sha256, secret_digest(secret)):
        raise KeyUnknown
    if row.ended:
        raise KeyRevoked


def _entry(row: KeyRow | None, fresh_until: float) -> _Entry:
    if row is None:
        return _Entry(None, None, fresh_until)
    scopes = (scope_of(name) for name in row.scopes)
    known = frozenset(scope for scope in scopes if scope is not None)
    caller = Caller(key_id=row.key_id, tenant=row.tenant, scopes=known)
    return _Entry(row, caller, fresh_until)
