"""Every refusal has its answer, and those that may pass say when to come again."""

import json

import pytest
from fencepost.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    DeliveryConflict,
    Draining,
    FencepostError,
    FieldInvalid,
    Internal,
    Overloaded,
    SchemaMismatch,
)

from services.ingress.webhooks.answers import refused
from services.ingress.webhooks.github import FORGE
from services.ingress.webhooks.gitlab import BY_TOKEN


@pytest.mark.parametrize(
    ("refusal", "status", "field"),
    [
        (FieldInvalid(violations=[("action", "is missing")]), 400, "action"),
        (DeliveryConflict(endpoint="github", delivery_id="d-1"), 409, ""),
        (BodyTooLarge(limit_bytes=5), 413, ""),
        (DatabaseUnavailable(), 503, ""),
        (DatabaseUnavailable(outcome_unknown=True), 503, ""),
        (Overloaded(), 503, ""),
        (Draining(), 503, ""),
        (SchemaMismatch(expected_revision=2, found_revision=1, oldest_code=1), 503, ""),
        (Internal(error_id="e-1"), 500, ""),
    ],
)
def test_each_refusal_has_its_answer(refusal: FencepostError, status: int, field: str) -> None:
    response = refused(FORGE, refusal, delivery_id="d-1", retry_after_s=7)
    assert response.status_code == status
    assert json.loads(bytes(response.body)) == {
        "reason": refusal.reason,
        "message": refusal.message,
        "field": field,
        "delivery": "d-1",
    }
    assert response.headers.get("retry-after") == ("7" if status == 503 else None)


def test_a_forge_that_must_not_see_refusals_is_told_to_come_again_or_nothing() -> None:
    statuses = {
        refused(BY_TOKEN, refusal, delivery_id="d-1", retry_after_s=7).status_code
        for refusal in (
            FieldInvalid(violations=[("action", "is missing")]),
            DeliveryConflict(endpoint="merges", delivery_id="d-1"),
            BodyTooLarge(limit_bytes=5),
            Internal(error_id="e-1"),
        )
    }
    assert statuses == {200}
    away = refused(BY_TOKEN, Overloaded(), delivery_id="d-1", retry_after_s=7)
    assert (away.status_code, away.headers["retry-after"]) == (503, "7")
