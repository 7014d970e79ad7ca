"""Goal: gRPC retries what may be repeated, and never a publish call (P3).

Method: the configs beside the contracts are compared with the descriptors of every service.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from fencepost.channel import SERVICES, service_config
from fencepost.common.v1 import server_info_pb2
from fencepost.dispatcher.v1 import checkpoints_pb2, intents_pb2, queues_pb2, work_pb2
from fencepost.ingress.v1 import endpoints_pb2, ingress_pb2
from fencepost.publisher.v1 import connections_pb2, ledger_pb2, publish_pb2
from fencepost.watchdog.v1 import access_pb2, watchdog_pb2

REPOSITORY = Path(__file__).parents[2]
FILES = (
    *(server_info_pb2, ingress_pb2, endpoints_pb2, work_pb2, intents_pb2, checkpoints_pb2),
    queues_pb2,
    *(ledger_pb2, publish_pb2, connections_pb2, watchdog_pb2, access_pb2),
)

NEVER_RETRIED = {
    "fencepost.dispatcher.v1.DispatchService/Work": "a session is resumed, not repeated",
    "fencepost.dispatcher.v1.DispatchService/Wake": "best effort: the poll is the truth",
    "fencepost.publisher.v1.PublishService/PublishReview": "one attempt (P3)",
    "fencepost.publisher.v1.PublishService/ResolveHead": "its caller asks again in its own time",
    "fencepost.watchdog.v1.AccessService/CreateKey": "the secret is shown once",
    "fencepost.watchdog.v1.AccessService/RotateKey": "the secret is shown once",
}


def config_of(root: str, service: str) -> dict[str, Any]:
    path = REPOSITORY / root / "fencepost" / service / "v1" / "service_config.json"
    config: dict[str, Any] = json.loads(path.read_text())
    return config


def methods() -> set[str]:
    return {
        f"{service.full_name}/{method.name}"
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def retried() -> set[str]:
    return {
        f"{name['service']}/{name['method']}"
        for entry in json.loads(service_config())["methodConfig"]
        for name in entry["name"]
    }


def test_every_method_is_either_retried_or_has_a_reason_not_to_be() -> None:
    assert retried() | set(NEVER_RETRIED) == methods()
    assert not retried() & set(NEVER_RETRIED)


@pytest.mark.guarantee("P3")
def test_no_publish_call_is_retried() -> None:
    assert not [name for name in retried() if ".PublishService/" in name]
    publish_methods = {name for name in methods() if ".PublishService/" in name}
    assert publish_methods <= set(NEVER_RETRIED)


def test_only_unavailable_is_retried_and_a_bounded_number_of_times() -> None:
    for entry in json.loads(service_config())["methodConfig"]:
        assert entry["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
        assert 2 <= entry["retryPolicy"]["maxAttempts"] <= 5


@pytest.mark.parametrize("service", SERVICES)
def test_the_wheel_ships_what_stands_beside_the_contracts(service: str) -> None:
    """Mend it by copying protos/…/service_config.json to the same place under sdk/."""
    assert config_of("sdk", service) == config_of("protos", service)


@pytest.mark.parametrize("service", SERVICES)
def test_the_configs_agree_on_what_is_no_methods_own(service: str) -> None:
    one, first = config_of("protos", service), config_of("protos", SERVICES[0])
    assert one | {"methodConfig": []} == first | {"methodConfig": []}
