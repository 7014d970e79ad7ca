"""What is told of refusals: each counted, the log not filled."""

from structlog.testing import capture_logs

from services.ingress.refusals import tell_refused
from shared.metrics import REGISTRY


def test_each_is_counted_and_the_first_of_its_reason_told() -> None:
    with capture_logs() as logs:
        for _ in range(3):
            tell_refused("told", "SIGNATURE_INVALID", "sign it")
        tell_refused("told", "BODY_TOO_LARGE", "send less")
    assert [(entry["endpoint"], entry["reason"], entry["why"]) for entry in logs] == [
        ("told", "SIGNATURE_INVALID", "sign it"),
        ("told", "BODY_TOO_LARGE", "send less"),
    ]
    labels = {"endpoint": "told", "reason": "SIGNATURE_INVALID"}
    assert REGISTRY.get_sample_value("delivery_refusals_total", labels) == 3
