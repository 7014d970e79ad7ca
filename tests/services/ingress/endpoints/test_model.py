"""Endpoints: which routes a repo has."""

from dataclasses import replace

from services.ingress.endpoints import Route
from tests.services.ingress.pulls import REPO_ID, endpoint_of, settings_of


def test_a_repo_has_the_routes_that_name_its_number_and_those_that_name_none() -> None:
    everywhere = Route(action="review", queue="reviews")
    here = Route(action="fix", queue="fixes", repo_ids=frozenset({REPO_ID}))
    endpoint = replace(
        endpoint_of(settings_of("postgresql://nobody@127.0.0.1/none")), routes=(everywhere, here)
    )
    assert endpoint.routes_of(REPO_ID) == (everywhere, here)
    assert endpoint.routes_of(REPO_ID + 1) == (everywhere,)
