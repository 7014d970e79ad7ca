"""Every statement of a store names the tenant for each table that has one, or stands below (X8)."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import pytest

from shared.database import Statement
from shared.schema.tables import metadata
from tests.architecture.tree import REPOSITORY, name_of, python_files

TENANT_TABLES = {table.name for table in metadata.tables.values() if "tenant" in table.c}
STORE = re.compile(r"services/.*\b(store|store_\w+|\w+_store)\.py")

EVERY_TENANT = "a background duty: it serves all tenants and acts for each row's own"
WITHOUT_TENANT = {
    "dispatcher/housekeeping/store.py _MOVE_DUE": EVERY_TENANT,
    "dispatcher/housekeeping/store.py _MOVE_SETTLED": EVERY_TENANT,
    "dispatcher/housekeeping/store.py _LOCK_OVERDUE": EVERY_TENANT,
    "dispatcher/housekeeping/store.py _LOOK": EVERY_TENANT,
    "dispatcher/housekeeping/heads_store.py _CLAIM_HEADLESS": EVERY_TENANT,
    "dispatcher/checkpoints/spans_store.py _PENDING": EVERY_TENANT,
    "ingress/intake/purge_store.py _PURGE_MARKERS": EVERY_TENANT,
    "ingress/intake/purge_store.py _PURGE_BODIES": EVERY_TENANT,
    "ingress/merge_groups/store.py _PURGE": EVERY_TENANT,
    "dispatcher/checkpoints/spans_store.py _EXPORTED": EVERY_TENANT,
    "dispatcher/dispatch/ready_store.py _BANDS": (
        "steps from priority to priority, which are no tenant's; a band needs work of the caller's"
    ),
    "dispatcher/dispatch/sessions_store.py _OPEN": "its `queues` are a column, not the table",
    "dispatcher/dispatch/outcomes_store.py _RELEASE_WAITERS": (
        "deletes what its own subquery has found under the tenant"
    ),
    "watchdog/status/figures_store.py _DELIVERIES_RECEIVED": (
        "begins at the caller's tenant, and at the first one of all only for an operator of all"
    ),
    "ingress/endpoints/store.py _ALL_ENDPOINTS": EVERY_TENANT,
    "ingress/endpoints/secrets_store.py _LIVE_SECRETS": EVERY_TENANT,
    "ingress/endpoints/secrets_store.py _DELETE_ENDED_SECRETS": EVERY_TENANT,
    "ingress/endpoints/secrets_store.py _LOCK_SEALED_UNDER_OTHERS": EVERY_TENANT,
    "ingress/endpoints/secrets_store.py _COUNT_BY_KEY": EVERY_TENANT,
    "bootstrap_store.py _DIGESTS": "the owner's: it tells whether a file's keys are the database's",
    "bootstrap_store.py _MADE_KEYS": "the owner's: it makes the first keys, of any tenant",
}

SUBQUERY = re.compile(r"\(\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE)\b")
REFERENCE = re.compile(
    r"(?P<how>\bFROM|\bJOIN|\bUPDATE|\bINTO|\bUSING|,)\s+(?:fencepost\.)?(?P<table>[a-z_]+)\b(?!\.)"
    r"(?:\s+AS\s+(?P<alias>\w+))?"
)
ONLY_OF_ALL = re.compile(r"(?:WHERE|AND)\s+%\(tenant\)s::text IS NULL(?!\s+OR\b)")


@dataclass(frozen=True)
class Query:
    """One SELECT, INSERT, UPDATE or DELETE without the queries inside it; `around` holds it."""

    text: str
    alias: str | None = None
    around: "Query | None" = None

    def unnamed(self) -> list[str]:
        """Tables with tenants that are used whatever the tenant."""
        found = [each for each in REFERENCE.finditer(self.text) if each["table"] in TENANT_TABLES]
        return [each["table"] for each in found if not self._names_tenant(each)]

    def _names_tenant(self, reference: "re.Match[str]") -> bool:
        if reference["how"] == "INTO":
            return self._writes_tenant(reference.end())
        if ONLY_OF_ALL.search(self.text) or self._is_judged_around():
            return True
        names = (reference["alias"],) if reference["alias"] else (reference["table"], "")
        return any(self._compares(name) for name in names) or self._joins(reference)

    def _writes_tenant(self, end: int) -> bool:
        columns = re.match(r"\s*\([^)]*\btenant\b[^)]*\)", self.text[end:])
        replaces = "DO UPDATE" in self.text
        same = re.search(r"CONFLICT \([^)]*\btenant\b|tenant = excluded\.tenant", self.text)
        return columns is not None and (same is not None or not replaces)

    def _compares(self, alias: str) -> bool:
        column = rf"\b{alias}\.tenant\b" if alias else r"(?<![.\w(])tenant\b"
        return bool(re.search(rf"{column}\s*[=>]|=\s*{column}", self.text))

    def _joins(self, reference: "re.Match[str]") -> bool:
        using = r"\s+USING \([^)]*\btenant\b"
        if reference["how"] == "JOIN":
            return re.match(using, self.text[reference.end() :]) is not None
        return reference["how"] == "FROM" and re.search(using, self.text) is not None

    def _is_judged_around(self) -> bool:
        return (
            self.around is not None and self.alias is not None and self.around._compares(self.alias)
        )


def queries(text: str, alias: str | None = None, around: Query | None = None) -> Iterator[Query]:
    """The query of this text and those inside it."""
    own, inner = "", []
    while found := SUBQUERY.search(text):
        end = _closing(text, found.start())
        named = re.match(r"\s+AS (\w+)", text[end:])
        inner.append((text[found.start() + 1 : end - 1], named[1] if named else None))
        own += text[: found.start()] + "()"
        text = text[end:]
    query = Query(own + text, alias, around)
    yield query
    for each, name in inner:
        yield from queries(each, name, query)


def _closing(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"a parenthesis is not closed: {text}")


def unnamed(text: str) -> list[str]:
    """Tables with tenants that the statement uses whatever the tenant."""
    return [table for query in queries(text) for table in query.unnamed()]


def stores() -> dict[str, ModuleType]:
    """Every store of the services by its file's name."""
    found = [name_of(path) for path in python_files() if STORE.fullmatch(name_of(path))]
    return {
        name.removeprefix("services/"): import_module(name[: -len(".py")].replace("/", "."))
        for name in found
    }


def texts(module: ModuleType) -> dict[str, str]:
    """The statements that a store holds by name."""
    held = {name: getattr(value, "text", value) for name, value in vars(module).items()}
    return {
        name: text
        for name, text in held.items()
        if isinstance(vars(module)[name], Statement)
        or (name.isupper() and isinstance(text, str) and re.match(r"\s*(SELECT|INSERT)", text))
    }


@pytest.mark.guarantee("X8")
def test_every_statement_names_the_tenant() -> None:
    found = {
        f"{file} {name}": tables
        for file, module in stores().items()
        for name, text in texts(module).items()
        if (tables := unnamed(text))
    }
    assert {name: tables for name, tables in found.items() if name not in WITHOUT_TENANT} == {}
    assert set(WITHOUT_TENANT) == set(found), "an exception that is none any more"


def test_no_statement_is_out_of_sight() -> None:
    for file, module in stores().items():
        tree = ast.parse((REPOSITORY / "services" / file).read_text())
        made = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if node.func.id == "statement"
        ]
        seen = [each for each in vars(module).values() if isinstance(each, Statement)]
        assert len(made) == len(seen), file


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT key FROM leases WHERE tenant = %(tenant)s", []),
        ("SELECT tenant FROM leases WHERE key = %(key)s", ["leases"]),
        ("SELECT key FROM leases WHERE (%(tenant)s::text IS NULL OR true)", ["leases"]),
        ("SELECT key FROM leases WHERE %(tenant)s::text IS NULL", []),
        ("UPDATE leases AS l SET epoch = 1 WHERE l.key = %(key)s", ["leases"]),
        ("DELETE FROM ready USING ready AS r WHERE r.tenant = %(tenant)s", ["ready"]),
        ("INSERT INTO ready (queue) VALUES (1)", ["ready"]),
        ("INSERT INTO ready (tenant) SELECT tenant FROM intents", ["intents"]),
        ("INSERT INTO runs (tenant) VALUES (1) ON CONFLICT (key) DO UPDATE SET key = 1", ["runs"]),
        (
            "SELECT 1 FROM runs AS r JOIN flushes AS f ON f.run_id = r.run_id WHERE r.tenant = 'a'",
            ["flushes"],
        ),
        (
            "SELECT 1 FROM runs AS r JOIN (SELECT 'a' AS tenant) AS x USING (tenant), ready AS s",
            ["ready"],
        ),
        (
            "SELECT 1 FROM (SELECT tenant FROM leases OFFSET 0) AS l WHERE l.tenant = %(tenant)s",
            [],
        ),
        ("SELECT 1 FROM (SELECT tenant FROM leases) AS l WHERE l.key = %(key)s", ["leases"]),
        ("SELECT EXISTS (SELECT FROM waiting WHERE due_at < now())", ["waiting"]),
    ],
)
def test_what_names_no_tenant_is_seen(text: str, tables: list[str]) -> None:
    assert unnamed(text) == tables
