"""A service's role may do what a statement of its needs, and no more (X2)."""

import re
from collections.abc import Iterator

import pytest

from shared import schema_fit
from shared.rpc import key_store
from shared.schema.grants import GRANTS, SERVICES
from tests.architecture.test_tenants import REFERENCE, queries, stores, texts

Use = tuple[str, str]
"""A table and a verb."""

LOCKS = re.compile(r"\bFOR (?:NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)\b")
READS_WHAT_IT_INSERTS = re.compile(r"\b(?:RETURNING|ON CONFLICT)\b")
BOOTSTRAP = "bootstrap_store.py"
"""Runs as the watchdog, who alone may make keys."""


def uses(text: str) -> Iterator[Use]:
    """What the statement does to which tables; a row lock asks for UPDATE, as an UPDATE does."""
    for query in queries(text):
        for found in REFERENCE.finditer(query.text):
            how, table = found["how"], found["table"]
            deletes = query.text[: found.start()].endswith("DELETE ")
            if how == "INTO":
                yield table, "INSERT"
            if how == "UPDATE" or (how == "INTO" and "DO UPDATE" in query.text):
                yield table, "UPDATE"
            if deletes:
                yield table, "DELETE"
            if how != "INTO" and LOCKS.search(query.text):
                yield table, "UPDATE"
            if how != "INTO" or READS_WHAT_IT_INSERTS.search(query.text):
                yield table, "SELECT"


def used() -> set[tuple[str, str, str]]:
    """Service, table and verb of every statement there is."""
    found = set()
    for file, module in stores().items():
        service = "watchdog" if file == BOOTSTRAP else file.partition("/")[0]
        found |= {(service, *use) for text in texts(module).values() for use in uses(text)}
    for module in (key_store, schema_fit):
        everybodys = {use for text in texts(module).values() for use in uses(text)}
        found |= {(service, *use) for service in SERVICES for use in everybodys}
    return found


@pytest.mark.guarantee("X2")
def test_every_grant_is_one_that_a_statement_needs() -> None:
    granted = {(grant.service, grant.table, grant.verb) for grant in GRANTS}
    assert granted - used() == set()
