"""What ingress is asked for of another tenant's."""

from fencepost.errors import ResourceNotFound
from fencepost.ingress.v1 import endpoints_pb2, ingress_pb2
from fencepost.status import from_status

from tests.system.probes.asking import Probe, presenting
from tests.system.tenants import ENDPOINT, Theirs


def submission(theirs: Theirs) -> ingress_pb2.SubmitDeliveryRequest:
    """A delivery for their endpoint, under the id of one that they have."""
    return ingress_pb2.SubmitDeliveryRequest(
        endpoint=ENDPOINT, delivery_id=theirs.delivery_id, event="pull_request", body=b"{}"
    )


def their_deliveries(theirs: Theirs) -> ingress_pb2.ListDeliveriesRequest:
    """What finds their delivery for them."""
    pull = theirs.pull
    return ingress_pb2.ListDeliveriesRequest(
        endpoint=ENDPOINT,
        key=theirs.work.key,
        change_request=ingress_pb2.ChangeRequestFilter(
            forge_instance=pull.forge_instance, repo_id=pull.repo_id, number=pull.number
        ),
    )


def put_endpoint() -> endpoints_pb2.PutEndpointRequest:
    """A new endpoint of the name that theirs has."""
    return endpoints_pb2.PutEndpointRequest(
        endpoint=endpoints_pb2.Endpoint(
            name=ENDPOINT,
            forge=endpoints_pb2.FORGE_KIND_GITHUB,
            forge_instance="github.com",
            proof=endpoints_pb2.PROOF_SIGNATURE,
            routes=[endpoints_pb2.Route(action="container-dispatch", queue="reviews")],
            drafts=endpoints_pb2.DRAFT_POLICY_TAKE,
        ),
        secret="sixteen letters!",
    )


PROBES: dict[str, tuple[Probe, ...]] = {
    "fencepost.ingress.v1.IngressService.SubmitDelivery": (
        Probe("their endpoint", presenting(submission), ResourceNotFound, "endpoint"),
    ),
    "fencepost.ingress.v1.IngressService.SubmitDeliveries": (
        Probe(
            "their endpoint",
            presenting(
                lambda theirs: ingress_pb2.SubmitDeliveriesRequest(deliveries=[submission(theirs)])
            ),
            shows_nothing=lambda answers, _: all(
                isinstance(from_status(result.refusal), ResourceNotFound)
                for result in answers[0].results
            ),
        ),
    ),
    "fencepost.ingress.v1.IngressService.ListDeliveries": (
        Probe(
            "their endpoint, their change request and their key",
            presenting(their_deliveries),
            shows_nothing=lambda answers, _: not answers[0].deliveries,
        ),
        Probe(
            "carries no id: lists the deliveries of the caller's tenant",
            presenting(lambda _: ingress_pb2.ListDeliveriesRequest()),
            shows_nothing=lambda answers, _: not answers[0].deliveries,
        ),
    ),
    "fencepost.ingress.v1.IngressService.GetDelivery": (
        Probe(
            "their delivery",
            presenting(
                lambda theirs: ingress_pb2.GetDeliveryRequest(
                    endpoint=ENDPOINT, delivery_id=theirs.delivery_id
                )
            ),
            ResourceNotFound,
            "delivery",
        ),
    ),
    "fencepost.ingress.v1.EndpointService.PutEndpoint": (
        Probe(
            "their endpoint's name",
            presenting(lambda _: put_endpoint()),
            shows_nothing=lambda answers, _: answers[0].created,
        ),
    ),
    "fencepost.ingress.v1.EndpointService.ListEndpoints": (
        Probe(
            "carries no id: lists the endpoints of the caller's tenant",
            presenting(lambda _: endpoints_pb2.ListEndpointsRequest()),
            shows_nothing=lambda answers, _: not answers[0].endpoints,
        ),
    ),
    "fencepost.ingress.v1.EndpointService.DisableEndpoint": (
        Probe(
            "their endpoint",
            presenting(lambda _: endpoints_pb2.DisableEndpointRequest(name=ENDPOINT)),
            ResourceNotFound,
            "endpoint",
        ),
    ),
    "fencepost.ingress.v1.EndpointService.RotateEndpointSecret": (
        Probe(
            "their endpoint",
            presenting(
                lambda _: endpoints_pb2.RotateEndpointSecretRequest(
                    name=ENDPOINT, secret="sixteen letters!"
                )
            ),
            ResourceNotFound,
            "endpoint",
        ),
    ),
}
