"""Every edge that is declared to be ingress's is taken by its operations."""

import psycopg

from tests.edges import declared_of, note_edges
from tests.services.ingress.desk import Desk
from tests.services.ingress.pulls import real


async def test_taking_in_takes_each_declared_edge_and_no_other(desk: Desk, owner_url: str) -> None:
    with psycopg.connect(owner_url, autocommit=True) as owner:
        taken = note_edges(owner)
        await desk.take("d-1", real("opened"))
        assert taken() == declared_of("ingress")
