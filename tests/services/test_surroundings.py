"""What the launcher tells each service: all of its own, and nothing of the others."""

import socket
from importlib import import_module

import pytest
from starlette.applications import Starlette

from services.first_keys import first_keys
from services.surroundings import (
    ADMIN_PORTS,
    GRPC_PORTS,
    HOST,
    PORTS,
    SEALING,
    WEBHOOK_PORT,
    choose_addresses,
    environment_of,
    reserved_ports,
)
from shared.environment import read
from shared.http_server import AddressUnavailableError, HttpServer
from shared.schema.grants import SERVICES, Service
from shared.sealing import new_key_line
from shared.settings import CallerSettings
from tools.docs.configuration import settings_of

SEALING_KEYS = new_key_line()

USERS = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "OTEL_RESOURCE_ATTRIBUTES": "a=b",
    "FENCEPOST_LOG_LEVEL": "debug",
    "FENCEPOST_API_KEY": "a person's",
    "FENCEPOST_API_KEY_FILE": "/a/persons",
    "DATABASE_URL": "postgresql://owner:secret@h/d",
    "AWS_SECRET_ACCESS_KEY": "x",
    "PUBLISHER_FORGE_TOKEN": "theirs",
    "WATCHDOG_DATABASE_URL": "postgresql://fencepost_watchdog:theirs@h/d",
}


def told(
    service: Service, environment: dict[str, str], api_key: str | None = None
) -> dict[str, str]:
    """The environment of a service on the default ports."""
    return environment_of(
        service,
        environment,
        addresses=choose_addresses(environment),
        database_url=f"postgresql://fencepost_{service}:p@h/d",
        api_key=api_key,
        sealing_keys=SEALING_KEYS if service in SEALING else None,
    )


@pytest.mark.guarantee("X2")
def test_a_service_sees_its_own_secrets_and_no_others() -> None:
    for service in SERVICES:
        seen = set(told(service, USERS, api_key="fp_own"))
        own = {name for name in USERS if name.startswith(f"{service.upper()}_")}
        assert own <= seen
        assert {"PATH", "LC_ALL", "OTEL_RESOURCE_ATTRIBUTES", "FENCEPOST_LOG_LEVEL"} <= seen
        secrets = {name for name in seen if "DATABASE_URL" in name or "KEY" in name}
        wanted = {f"{service.upper()}_DATABASE_URL", f"{service.upper()}_API_KEY"}
        wanted |= {f"{service.upper()}_SEALING_KEYS"} if service in SEALING else set()
        assert secrets == wanted
        assert not seen & (set(USERS) - own - COMMON), service


COMMON = {"PATH", "LC_ALL", "OTEL_RESOURCE_ATTRIBUTES", "FENCEPOST_LOG_LEVEL"}


def test_what_the_user_set_wins() -> None:
    user = {
        "INGRESS_API_KEY_FILE": "/run/key",
        "INGRESS_SEALING_KEYS_FILE": "/run/sealing",
        "INGRESS_DATABASE_URL": "postgresql://fencepost_ingress:theirs@h/d",
        "DISPATCHER_GRPC_ADDRESS": "127.0.0.1:9",
    }

    seen = told("ingress", user, api_key="fp_chosen")

    assert seen["INGRESS_DATABASE_URL"] == user["INGRESS_DATABASE_URL"]
    assert seen["INGRESS_DISPATCHER_ADDRESS"] == "127.0.0.1:9"
    assert not seen.keys() & {"INGRESS_API_KEY", "INGRESS_SEALING_KEYS"}


def test_the_default_ports_are_those_of_the_services() -> None:
    for service in SERVICES:
        fields = settings_of(service).model_fields
        assert fields["grpc_address"].default == f"{HOST}:{GRPC_PORTS[service]}"
        assert fields["admin_address"].default == f"{HOST}:{ADMIN_PORTS[service]}"
    ingress = settings_of("ingress").model_fields
    assert ingress["webhook_address"].default == f"{HOST}:{WEBHOOK_PORT}"
    assert ingress["dispatcher_address"].default == f"{HOST}:{GRPC_PORTS['dispatcher']}"
    dispatcher = settings_of("dispatcher").model_fields
    assert dispatcher["publisher_address"].default == f"{HOST}:{GRPC_PORTS['publisher']}"


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_takes_what_it_is_told(service: Service) -> None:
    import_module(f"services.{service}.settings")
    key = "fp_abcdefgh12345678_" + "s" * 43

    calls = issubclass(settings_of(service), CallerSettings)

    settings = read(settings_of(service), told(service, {}, api_key=key if calls else None))

    assert settings.grpc_address == f"{HOST}:{GRPC_PORTS[service]}"
    assert isinstance(settings, CallerSettings) == calls


@pytest.mark.guarantee("X2")
def test_there_is_a_first_key_for_each_service_that_calls_another_and_for_no_other() -> None:
    made = {key.variable for key in first_keys("acme")}
    read_by = {
        f"{service.upper()}_API_KEY"
        for service in SERVICES
        if issubclass(settings_of(service), CallerSettings)
    }
    assert made - {"OPERATOR_API_KEY", "WORKER_API_KEY"} == read_by
    for service in SERVICES:
        assert ("api_key" in settings_of(service).model_fields) == (
            f"{service.upper()}_API_KEY" in read_by
        )


def test_reserved_ports_are_given_once_and_may_be_listened_on() -> None:
    with reserved_ports() as ports, reserved_ports() as others:
        assert len({*ports, *others, *PORTS}) == 3 * len(PORTS)
        addresses = choose_addresses({}, ports=ports)
        assert addresses.grpc["ingress"] == f"{HOST}:{ports[0]}"
        assert addresses.webhooks == f"{HOST}:{ports[-1]}"
        with socket.socket() as stranger, pytest.raises(OSError, match="already in use"):
            stranger.bind((HOST, ports[0]))


async def test_a_service_listens_on_a_reserved_port_and_then_nobody_else_can() -> None:
    with reserved_ports() as (port, *_):
        serving = HttpServer(Starlette(), f"{HOST}:{port}")
        await serving.start()
        with pytest.raises(AddressUnavailableError):
            await HttpServer(Starlette(), f"{HOST}:{port}").start()
        await serving.stop(grace_ms=0)
