"""Rows that tests start from: a builder for each table, with sensible defaults.

The builders write as the schema's owner, because they play every service at once; the code under
test connects as its own role. Every change request made here has a repository of its own.
"""

import hashlib
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from shared.credentials import new_credential
from shared.keys import Key
from shared.schema.tables.base import SCHEMA

Row = dict[str, Any]

NOW = sql.SQL("clock_timestamp()")
LEASE_MS = 30 * 60 * 1000

_numbers = itertools.count(1)


def from_now(delay_ms: int) -> sql.Composable:
    """The database's clock, so many milliseconds later; earlier where negative."""
    return sql.SQL("clock_timestamp() + {} * interval '1 millisecond'").format(delay_ms)


@dataclass(frozen=True, kw_only=True)
class ChangeRequest:
    """A pull request as the tables know it."""

    tenant: str
    forge_instance: str
    repo_id: int
    repo_name: str
    number: int
    head_sha: str
    generation: int
    url: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one unit of work is called in every table; `change_request` is None for a bare key."""

    tenant: str
    key: str
    key_label: str
    action: str
    generation: int
    queue: str
    priority: int = 0
    intent_id: int = 0
    holder: str = ""
    epoch: int = 0
    version: int = 0
    change_request: ChangeRequest | None = None
    suffix: str = ""


@dataclass(frozen=True)
class Rows:
    """The builders, on the owner's connection, which must commit by itself."""

    connection: AsyncConnection[Any]
    tenant: str = "acme"
    numbers: "itertools.count[int]" = field(default=_numbers, repr=False)

    async def insert(self, table: str, **values: Any) -> Row:
        """Inserts one row and returns it; a value may be an expression of psycopg.sql."""
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING *").format(
            sql.Identifier(SCHEMA, table),
            sql.SQL(", ").join(sql.Identifier(name) for name in values),
            sql.SQL(", ").join(
                value if isinstance(value, sql.Composable) else sql.Placeholder(name)
                for name, value in values.items()
            ),
        )
        async with self.connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(statement, _adapted(values))
            row = await cursor.fetchone()
        assert row is not None
        return row

    async def all(self, table: str, **equal: Any) -> list[Row]:
        """Rows of a table whose columns equal these values, in order of its first column."""
        tests = [sql.SQL("{} = {}").format(sql.Identifier(n), sql.Placeholder(n)) for n in equal]
        statement = sql.SQL("SELECT * FROM {} WHERE {} ORDER BY 1").format(
            sql.Identifier(SCHEMA, table), sql.SQL(" AND ").join([sql.SQL("true"), *tests])
        )
        async with self.connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(statement, equal)
            return await cursor.fetchall()

    async def one(self, table: str, **equal: Any) -> Row:
        """The only row of a table whose columns equal these values."""
        rows = await self.all(table, **equal)
        assert len(rows) == 1, f"{len(rows)} rows in {table} where {equal}"
        return rows[0]

    async def change(self, table: str, where: Row, **values: Any) -> int:
        """Sets columns of the rows that equal `where`; returns how many there were."""
        sets = [
            sql.SQL("{} = {}").format(
                sql.Identifier(name),
                value if isinstance(value, sql.Composable) else sql.Literal(value),
            )
            for name, value in values.items()
        ]
        tests = [sql.SQL("{} = {}").format(sql.Identifier(n), v) for n, v in where.items()]
        statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(
            sql.Identifier(SCHEMA, table), sql.SQL(", ").join(sets), sql.SQL(" AND ").join(tests)
        )
        return (await self.connection.execute(statement)).rowcount

    async def api_key(self, *scopes: str, tenant: str | None = "acme") -> str:
        """A key with these scopes, e.g. "publish"; returns what its holder sends."""
        credential = new_credential()
        await self.insert(
            "api_keys",
            key_id=credential.key_id,
            tenant=tenant,
            label=f"key {next(self.numbers)}",
            scopes=list(scopes),
            secret_sha256=credential.secret_sha256,
            created_by="tests",
        )
        return credential.text

    async def change_request(self, **values: Any) -> ChangeRequest:
        """An open pull request with its head, in a repository of its own."""
        number = next(self.numbers)
        repo_name = values.pop("repo_name", f"octo-org/widgets-{number}")
        pull = {
            "tenant": self.tenant,
            "forge_instance": "github.com",
            "repo_id": 1_296_000_000_000 + number,
            "number": 7,
            "forge": "github",
            "repo_name": repo_name,
            "url": f"https://github.com/{repo_name}/pull/{values.get('number', 7)}",
            "base_ref": "main",
            "head_sha": hashlib.sha1(str(number).encode()).hexdigest(),
            "generation": 1,
            "state": "open",
            **values,
        }
        row = await self.insert("change_requests", **pull)
        made = ChangeRequest(**{name: row[name] for name in ChangeRequest.__dataclass_fields__})
        identity = ("tenant", "forge_instance", "repo_id", "number", "generation", "head_sha")
        await self.insert("change_request_heads", **{name: row[name] for name in identity})
        return made

    async def intent(
        self,
        change_request: ChangeRequest | None = None,
        *,
        action: str = "container-dispatch",
        suffix: str = "",
        **values: Any,
    ) -> Work:
        """An open intent for the head of a change request (a new one unless given).

        It stands nowhere yet: `ready` or `lease` places it.
        """
        pull = change_request or await self.change_request(
            **{name: values.pop(name) for name in ("tenant",) if name in values}
        )
        key = Key(
            forge_instance=pull.forge_instance,
            repo_id=pull.repo_id,
            number=pull.number,
            head_sha=pull.head_sha,
            suffix=suffix,
        )
        row = await self.insert(
            "intents",
            **{
                "tenant": pull.tenant,
                "queue": "reviews",
                "key": key.canonical(),
                "key_label": key.label(pull.repo_name),
                "action": action,
                "generation": pull.generation,
                "forge_instance": pull.forge_instance,
                "repo_id": pull.repo_id,
                "number": pull.number,
                "head_sha": pull.head_sha,
                "suffix": suffix,
                "content_type": "application/json",
                **({} if "delivery_seq" in values else {"payload": b"{}"}),
                **values,
            },
        )
        return _work(row, change_request=pull)

    async def bare_intent(self, **values: Any) -> Work:
        """An open intent of a message without a key of a forge."""
        key = f"intent:{10_000_000 + next(self.numbers)}"
        row = await self.insert(
            "intents",
            **{
                "tenant": self.tenant,
                "queue": "reviews",
                "key": key,
                "key_label": key,
                "action": "container-dispatch",
                "generation": 1,
                "content_type": "application/json",
                "payload": b"{}",
                **values,
            },
        )
        return _work(row, change_request=None)

    async def delivery(self, **values: Any) -> Row:
        """An accepted delivery."""
        body = values.pop("body", b"{}")
        return await self.insert(
            "deliveries",
            **{
                "tenant": self.tenant,
                "endpoint": "github",
                "delivery_id": f"delivery-{next(self.numbers)}",
                "forge": "github",
                "forge_instance": "github.com",
                "event": "pull_request",
                "event_action": "opened",
                "content_type": "application/json",
                "body": body,
                "body_sha256": hashlib.sha256(body).digest(),
                "outcome": "accepted",
                **values,
            },
        )

    async def ready(self, work: Work, **values: Any) -> Row:
        """The intent may be granted now."""
        return await self.insert("ready", **{**_placed(work), **values})

    async def waiting(self, work: Work, *, due_in_ms: int = 60_000, **values: Any) -> Row:
        """The intent waits: for time, unless `waits_on` says otherwise."""
        return await self.insert(
            "waiting",
            **{
                **_placed(work),
                "attempts": 0,
                "waits_on": "time",
                "due_at": from_now(due_in_ms),
                **values,
            },
        )

    async def lease(self, work: Work, *, claimable_in_ms: int = LEASE_MS, **values: Any) -> Work:
        """A running lease on the intent, at epoch 1 by holder-1 unless said otherwise."""
        row = await self.insert(
            "leases",
            **{
                **_placed(work),
                "generation": work.generation,
                "state": "running",
                "epoch": 1,
                "holder": "holder-1",
                "attempts": 1,
                "grant_id": f"grant-{next(self.numbers)}",
                "lease_ms": LEASE_MS,
                "granted_at": NOW,
                "renewed_at": NOW,
                "claimable_at": from_now(claimable_in_ms),
                **values,
            },
        )
        return replace(work, holder=row["holder"], epoch=row["epoch"])

    async def run(self, work: Work, *, version: int = 1, **values: Any) -> Work:
        """The latest checkpoint of the work, at this version, with its flush."""
        row = await self.insert(
            "runs",
            **{
                "tenant": work.tenant,
                "key": work.key,
                "action": work.action,
                "generation": work.generation,
                "intent_id": work.intent_id,
                "epoch": max(1, work.epoch),
                "version": version,
                "flush_id": f"flush-{next(self.numbers)}",
                "state": b"{}",
                "state_schema_version": 1,
                "analysis_status": "succeeded",
                **values,
            },
        )
        carried = ("tenant", "run_id", "flush_id", "version", "epoch", "final")
        await self.insert(
            "flushes",
            request_sha256=hashlib.sha256(row["state"]).digest(),
            state_bytes=len(row["state"]),
            span_count=0,
            **{name: row[name] for name in carried},
        )
        return replace(work, version=row["version"])

    async def work(self, change_request: ChangeRequest | None = None, **values: Any) -> Work:
        """Work under way: intent, running lease, and a checkpoint at version 1."""
        intent = await self.intent(change_request, **values)
        return await self.run(await self.lease(intent))

    async def takeover(self, work: Work, *, holder: str = "holder-2", **values: Any) -> Work:
        """Gives the running lease to another holder, at the next epoch."""
        moved = {"holder": holder, "epoch": work.epoch + 1, "granted_at": NOW, **values}
        where = {name: getattr(work, name) for name in ("tenant", "key", "action", "epoch")}
        changed = await self.change("leases", where, **moved)
        assert changed == 1, "the lease to take over is not there"
        return replace(work, holder=holder, epoch=work.epoch + 1)

    async def publication(self, work: Work, **values: Any) -> Row:
        """An identity in the ledger, without attempts."""
        pull = work.change_request
        return await self.insert(
            "publications",
            **{
                **{name: getattr(work, name) for name in ("tenant", "key", "key_label", "action")},
                "generation": work.generation,
                "name": "review",
                "kind": "review",
                "target": f"{pull.forge_instance}/{pull.repo_id}#{pull.number}" if pull else "none",
                "ordinal": 0,
                "intent_id": work.intent_id,
                **values,
            },
        )

    async def attempt(
        self, publication: Row, *, status: str = "succeeded", attempt: int = 1, **values: Any
    ) -> Row:
        """An attempt of a publication; settled now, unless it runs."""
        settled = {} if status == "running" else {"settled_at": NOW}
        succeeded = {"remote_id": "80", "remote_url": "https://github.com/review/80"}
        return await self.insert(
            "publication_attempts",
            **{
                "tenant": publication["tenant"],
                "publication_id": publication["publication_id"],
                "attempt": attempt,
                "status": status,
                "holder": "holder-1",
                "epoch": 1,
                "intent_id": publication["intent_id"],
                "claim_token": f"token-{next(self.numbers)}",
                "checkpoint_version": 1,
                "digest": hashlib.sha256(b"content").digest(),
                "request": b"{}",
                "evidence": "",
                **settled,
                **(succeeded if status == "succeeded" else {}),
                **values,
            },
        )

    async def hold(self, **values: Any) -> Row:
        """A hold on everything, unless columns narrow it."""
        return await self.insert("holds", **{"reason": "incident", "placed_by": "ops", **values})


def _adapted(values: Row) -> Row:
    return {n: Jsonb(v) if isinstance(v, dict) else v for n, v in values.items()}


def _work(row: Row, *, change_request: ChangeRequest | None) -> Work:
    named = ("tenant", "key", "key_label", "action", "generation", "queue", "priority")
    return Work(
        **{name: row[name] for name in (*named, "intent_id", "suffix")},
        change_request=change_request,
    )


def _placed(work: Work) -> Row:
    named = ("queue", "priority", "tenant", "intent_id", "key", "action")
    return {name: getattr(work, name) for name in named}
