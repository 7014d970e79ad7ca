"""Making, changing, disabling and listing connections, and sealing them under a newer key.

Each change is one transaction with its audit entry (W7). A token goes in and never comes out.
"""

import hmac
import json
from dataclasses import dataclass, field
from functools import partial

from fencepost.errors import (
    FieldInvalid,
    ResourceNotFound,
    SealingKeyUnknown,
    SecretTampered,
)

from services.publisher.audit_store import insert_audit_entry
from services.publisher.connections import rules, store
from services.publisher.connections.open_operations import Connections, bound_to, sealed_for
from services.publisher.connections.store import ConnectionRow, ConnectionWrite
from services.publisher.model import ForgeKind
from services.publisher.settings import PublisherSettings
from shared.database import Database, Transaction

PUT = "PutConnection"
DISABLE = "DisableConnection"
ROTATE = "RotateSealingKey"
ROTATED_AT_ONCE = 100

Row = ConnectionRow
Position = tuple[str, str]
"""Tenant and instance of a connection; listings go in this order."""


@dataclass(frozen=True, kw_only=True)
class PutConnection:
    """A connection as it shall be; an empty token keeps the one that is stored."""

    tenant: str
    key_id: str
    forge: ForgeKind
    forge_instance: str
    base_url: str
    token: str = field(repr=False)
    enable: bool


@dataclass(frozen=True, kw_only=True)
class Put:
    """The connection as it stands; `changed` is false where it stood so before."""

    connection: Row
    changed: bool


@dataclass(frozen=True, kw_only=True)
class Page:
    """Connections by tenant and instance; the token is empty on the last page."""

    connections: list[Row]
    next_page_token: str


@dataclass(frozen=True, kw_only=True)
class Rotated:
    """How many tokens were sealed anew under the active key, and which could not be opened."""

    active_key_id: str
    rewrapped: int
    unopened: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class _Some:
    """What one transaction of a rotation did; `next` is None when nothing is left."""

    rewrapped: int
    unopened: list[Row]
    next: Position | None


class ConnectionOperations:
    """Connections on one database."""

    def __init__(
        self, database: Database, connections: Connections, settings: PublisherSettings
    ) -> None:
        self._database = database
        self._connections = connections
        self._settings = settings

    async def put(self, command: PutConnection) -> Put:
        """Makes or changes the connection; the same again changes nothing. Keeps K1, X8, W7.

        Raises FieldInvalid, SealingKeyUnknown.
        """
        problem = self._settings.base_url_problem(command.base_url)
        if problem is not None:
            raise FieldInvalid(violations=[("base_url", problem)])
        return await self._database.run(lambda tx: self._put(tx, command))

    async def disable(self, *, tenant: str, forge_instance: str, reason: str, key_id: str) -> Row:
        """Lets nothing be sent or read over it any more; a repeat changes nothing. Keeps X8, W7.

        Raises ResourceNotFound.
        """

        async def disabled(tx: Transaction) -> Row:
            named = {"tenant": tenant, "forge_instance": forge_instance}
            row = await store.disable_connection(tx, **named)
            if row is not None:
                await _write_down(tx, row, DISABLE, key_id=key_id, reason=reason)
            row = row or await store.find_connection(tx, **named)
            if row is None:
                raise ResourceNotFound(kind="connection", name=forge_instance)
            return row

        return await self._database.run(disabled)

    async def page(self, tenant: str | None, *, size: int, token: str) -> Page:
        """One page; raises FieldInvalid for a token that was never given out. Keeps X8."""
        after = rules.page_position(token) if token else rules.FIRST
        if after is None:
            sentence = "must be the next_page_token of an answer, or empty"
            raise FieldInvalid(violations=[("page_token", sentence)])
        rows = await self._database.read(
            lambda tx: store.list_connections(tx, tenant=tenant, after=after, limit=size + 1)
        )
        shown = rows[:size]
        more = rules.page_token(*_place(shown[-1])) if len(rows) > size else ""
        return Page(connections=shown, next_page_token=more)

    async def rotate(self, tenant: str | None, *, key_id: str) -> Rotated:
        """Wraps every token's data key by the active key, some in each transaction. Keeps K1, W7.

        Raises SealingKeyUnknown where there is no keyring.
        """
        rewrapped, unopened = 0, list[Row]()
        after: Position | None = rules.FIRST
        while after is not None:
            some = partial(self._rotate_some, tenant=tenant, after=after, key_id=key_id)
            done = await self._database.run(some)
            rewrapped += done.rewrapped
            unopened += done.unopened
            after = done.next
        return Rotated(
            active_key_id=self._connections.keyring.active_id,
            rewrapped=rewrapped,
            unopened=tuple(unopened),
        )

    async def _put(self, tx: Transaction, command: PutConnection) -> Put:
        named = {"tenant": command.tenant, "forge_instance": command.forge_instance}
        row = await store.lock_connection(tx, **named)
        if row is None and not command.token:
            raise FieldInvalid(violations=[("token", "must be set for a new connection")])
        if row is None:
            made = await store.insert_connection(tx, self._write(command, version=1))
            if made is not None:
                await _write_down(tx, made, PUT, key_id=command.key_id)
                return Put(connection=made, changed=True)
            row = await store.lock_connection(tx, **named)
        assert row is not None, "connections are never deleted"
        return await self._change(tx, row, command)

    async def _change(self, tx: Transaction, row: Row, command: PutConnection) -> Put:
        if row.forge != command.forge:
            raise FieldInvalid(violations=[("forge", f"cannot change: it is {row.forge}")])
        moved = row.base_url != command.base_url
        if moved and not command.token:
            sentence = "must be given again with another base_url: it would go to a new place"
            raise FieldInvalid(violations=[("token", sentence)])
        sealed_anew = moved or (bool(command.token) and not self._holds(row, command.token))
        enabled = command.enable and row.disabled_at is not None
        if not (sealed_anew or enabled):
            return Put(connection=row, changed=False)
        changed = await store.update_connection(
            tx,
            self._write(command, version=row.version + 1) if sealed_anew else _as_it_is(row),
            enable=command.enable,
        )
        assert changed is not None, "a locked connection went on without us"
        await _write_down(tx, changed, PUT, key_id=command.key_id)
        return Put(connection=changed, changed=True)

    def _holds(self, row: Row, token: str) -> bool:
        """Whether this very token is stored; one that does not open is any other."""
        try:
            stored = self._connections.token_of(row)
        except (SealingKeyUnknown, SecretTampered):
            return False
        return hmac.compare_digest(stored.encode(), token.encode())

    def _write(self, command: PutConnection, *, version: int) -> ConnectionWrite:
        place = {
            "tenant": command.tenant,
            "forge": command.forge.value,
            "forge_instance": command.forge_instance,
            "base_url": command.base_url,
        }
        bound = sealed_for(**place, version=version)
        sealed = self._connections.keyring.seal(command.token.encode(), bound)
        return ConnectionWrite(**place, version=version, sealed=sealed)

    async def _rotate_some(
        self, tx: Transaction, *, tenant: str | None, after: Position, key_id: str
    ) -> _Some:
        keyring = self._connections.keyring
        rows = await store.lock_wrapped_by_others(
            tx, tenant=tenant, active_key_id=keyring.active_id, after=after, limit=ROTATED_AT_ONCE
        )
        unopened: list[Row] = []
        for row in rows:
            try:
                sealed = keyring.rewrap(row.sealed, bound_to(row))
            except (SealingKeyUnknown, SecretTampered):
                unopened.append(row)
                continue
            await store.rewrap_connection(tx, row, sealed)
            await _write_down(tx, row, ROTATE, key_id=key_id, sealing_key_id=sealed.key_id)
        more = len(rows) == ROTATED_AT_ONCE
        return _Some(
            rewrapped=len(rows) - len(unopened),
            unopened=unopened,
            next=_place(rows[-1]) if more else None,
        )


def _place(row: Row) -> Position:
    return row.tenant, row.forge_instance


def _as_it_is(row: Row) -> ConnectionWrite:
    return ConnectionWrite(
        tenant=row.tenant,
        forge=row.forge,
        forge_instance=row.forge_instance,
        base_url=row.base_url,
        version=row.version,
        sealed=row.sealed,
    )


async def _write_down(
    tx: Transaction, row: Row, action: str, *, key_id: str, reason: str = "", **facts: str
) -> None:
    """The audit entry, under the tenant of the connection, with no secret in it."""
    detail = {
        "forge": row.forge,
        "base_url": row.base_url,
        "version": row.version,
        "disabled": row.disabled_at is not None,
        **facts,
    }
    await insert_audit_entry(
        tx,
        tenant=row.tenant,
        key_id=key_id,
        action=action,
        subject=f"connection {row.forge_instance}",
        reason=reason,
        detail=json.dumps(detail),
    )
