"""Every edge that is declared to be the publisher's is taken by the ledger's operations."""

from functools import partial

import psycopg

from services.publisher.ledger import operations as ledger
from services.publisher.model import Refused, Succeeded, Uncertain
from shared.database import Database
from tests.edges import declared_of, note_edges
from tests.rows import Rows
from tests.services.publisher.commands import claimed, review_of


async def test_the_ledger_takes_each_declared_edge_and_no_other(
    database: Database, rows: Rows, owner_url: str
) -> None:
    outcomes = (
        Succeeded(remote_id="80", remote_url="https://github.com/r/80", result=b"{}"),
        Uncertain(detail="no answer"),
        Refused(detail="422"),
    )
    with psycopg.connect(owner_url, autocommit=True) as owner:
        taken = note_edges(owner)
        for outcome in outcomes:
            claim = await claimed(database, review_of(await rows.work()))
            await database.run(partial(ledger.settle, claimed=claim, outcome=outcome))
        assert taken() == declared_of("publisher")
