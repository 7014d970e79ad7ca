"""What the watchdog is asked for of another tenant's."""

from collections.abc import Sequence
from typing import Any

from fencepost.errors import ResourceNotFound
from fencepost.watchdog.v1 import access_pb2, watchdog_pb2

from tests.system.probes.asking import Probe, presenting
from tests.system.tenants import Theirs, create_key


def all_zero(answers: Sequence[Any], _theirs: Theirs) -> bool:
    """Nothing is counted that we have not got; what cannot be observed has no value."""
    return not any(figure.value for figure in answers[0].figures)


def nothing_received(answers: Sequence[Any], _theirs: Theirs) -> bool:
    """The story of what was never received."""
    return not answers[0].events and answers[0].standing.startswith("Nothing was received")


PROBES: dict[str, tuple[Probe, ...]] = {
    "fencepost.watchdog.v1.AccessService.CreateKey": (
        Probe(
            "their request id",
            presenting(lambda _: create_key()),
            shows_nothing=lambda answers, theirs: answers[0].key.key_id not in theirs.key_ids,
        ),
    ),
    "fencepost.watchdog.v1.AccessService.RotateKey": (
        Probe(
            "their key",
            presenting(
                lambda theirs: access_pb2.RotateKeyRequest(
                    request_id="r", key_id=min(theirs.key_ids)
                )
            ),
            ResourceNotFound,
            "key",
        ),
    ),
    "fencepost.watchdog.v1.AccessService.RevokeKey": (
        Probe(
            "their key",
            presenting(lambda theirs: access_pb2.RevokeKeyRequest(key_id=min(theirs.key_ids))),
            ResourceNotFound,
            "key",
        ),
    ),
    "fencepost.watchdog.v1.AccessService.ListKeys": (
        Probe(
            "carries no id: lists the keys of the caller's tenant",
            presenting(lambda _: access_pb2.ListKeysRequest()),
            shows_nothing=lambda answers, theirs: theirs.key_ids.isdisjoint(
                key.key_id for key in answers[0].keys
            ),
        ),
    ),
    "fencepost.watchdog.v1.WatchdogService.GetStatus": (
        Probe(
            "carries no id: counts what the caller's tenant has",
            presenting(lambda _: watchdog_pb2.GetStatusRequest()),
            shows_nothing=all_zero,
        ),
    ),
    "fencepost.watchdog.v1.WatchdogService.GetTimeline": (
        Probe(
            "their delivery",
            presenting(
                lambda theirs: watchdog_pb2.GetTimelineRequest(delivery_id=theirs.delivery_id)
            ),
            shows_nothing=nothing_received,
        ),
        Probe(
            "their change request",
            presenting(
                lambda theirs: watchdog_pb2.GetTimelineRequest(change_request_url=theirs.pull.url)
            ),
            shows_nothing=nothing_received,
        ),
    ),
}
