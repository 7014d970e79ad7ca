"""What the publisher is asked for of another tenant's."""

from fencepost.errors import ResourceNotFound, ScopeMissing
from fencepost.publisher.v1 import connections_pb2, heads_pb2, ledger_pb2

from tests.services.publisher.wire import review_request
from tests.system.probes.asking import Probe, presenting
from tests.system.tenants import THEIRS, hold


def put_connection() -> connections_pb2.PutConnectionRequest:
    """A connection to the instance that theirs leads to."""
    return connections_pb2.PutConnectionRequest(
        forge_instance="github.com",
        forge=connections_pb2.FORGE_KIND_GITHUB,
        base_url="https://api.github.com",
        token="ours",
    )


PROBES: dict[str, tuple[Probe, ...]] = {
    "fencepost.publisher.v1.PublishService.PublishReview": (
        Probe(
            "their fence and intent",
            presenting(lambda theirs: review_request(theirs.work)),
            ResourceNotFound,
            "intent",
        ),
    ),
    "fencepost.publisher.v1.PublishService.ResolveHead": (
        Probe(
            "their tenant's name",
            presenting(
                lambda theirs: heads_pb2.ResolveHeadRequest(
                    forge_instance="github.com",
                    repo_id=theirs.pull.repo_id,
                    number=theirs.pull.number,
                    tenant=THEIRS,
                )
            ),
            ScopeMissing,
        ),
    ),
    "fencepost.publisher.v1.ConnectionService.PutConnection": (
        Probe(
            "the instance that they are connected to",
            presenting(lambda _: put_connection()),
            shows_nothing=lambda answers, _: answers[0].connection.version == 1,
        ),
    ),
    "fencepost.publisher.v1.ConnectionService.ListConnections": (
        Probe(
            "carries no id: lists the connections of the caller's tenant",
            presenting(lambda _: connections_pb2.ListConnectionsRequest()),
            shows_nothing=lambda answers, _: not answers[0].connections,
        ),
    ),
    "fencepost.publisher.v1.ConnectionService.DisableConnection": (
        Probe(
            "the instance that they are connected to",
            presenting(
                lambda _: connections_pb2.DisableConnectionRequest(forge_instance="github.com")
            ),
            ResourceNotFound,
            "connection",
        ),
    ),
    "fencepost.publisher.v1.ConnectionService.RotateSealingKey": (
        Probe(
            "carries no id: seals the tokens of the caller's tenant anew",
            presenting(lambda _: connections_pb2.RotateSealingKeyRequest()),
            shows_nothing=lambda answers, _: not (answers[0].rewrapped or answers[0].unopened),
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
