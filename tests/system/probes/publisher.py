"""What the publisher is asked for of another tenant's."""

from fencepost.errors import ResourceNotFound
from fencepost.publisher.v1 import ledger_pb2

from tests.services.publisher.wire import review_request
from tests.system.probes.asking import Probe, presenting
from tests.system.tenants import hold

PROBES: dict[str, tuple[Probe, ...]] = {
    "fencepost.publisher.v1.PublishService.PublishReview": (
        Probe(
            "their fence and intent",
            presenting(lambda theirs: review_request(theirs.work)),
            ResourceNotFound,
            "intent",
        ),
    ),
    "fencepost.publisher.v1.LedgerService.GetPublication": (
        Probe(
            "their publication",
            presenting(
                lambda theirs: ledger_pb2.GetPublicationRequest(
                    publication_id=theirs.publication_id
                )
            ),
            ResourceNotFound,
            "publication",
        ),
    ),
    "fencepost.publisher.v1.LedgerService.HoldPublications": (
        Probe(
            "their request id",
            presenting(lambda _: hold()),
            shows_nothing=lambda answers, theirs: answers[0].hold_id not in theirs.hold_ids,
        ),
    ),
    "fencepost.publisher.v1.LedgerService.ReleaseHold": (
        Probe(
            "their hold",
            presenting(lambda theirs: ledger_pb2.ReleaseHoldRequest(hold_id=min(theirs.hold_ids))),
            ResourceNotFound,
            "hold",
        ),
    ),
}
