"""Every endpoint that this ingress serves."""

from collections.abc import Iterable
from typing import Self

from fencepost.errors import ResourceNotFound

from services.ingress.endpoints.model import Endpoint, ForgeKind, Proof, Route
from services.ingress.settings import IngressSettings


class Endpoints:
    """Every endpoint that this ingress serves."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(endpoints)

    @classmethod
    def of(cls, settings: IngressSettings) -> Self:
        """The one endpoint of the settings, or none."""
        secrets = (settings.endpoint_secret, settings.endpoint_secret_previous)
        endpoint = Endpoint(
            name=settings.endpoint_name,
            tenant=settings.endpoint_tenant,
            forge=ForgeKind(settings.endpoint_forge),
            forge_instance=settings.endpoint_forge_instance,
            proof=Proof(settings.endpoint_proof),
            secrets=tuple(each.get_secret_value().encode() for each in secrets if each),
            routes=(Route(action=settings.endpoint_action, queue=settings.endpoint_queue),),
            body_limit_bytes=settings.body_limit_bytes,
        )
        return cls([endpoint] if endpoint.name else [])

    def of_forge(self, forge: str, name: str | None) -> Endpoint:
        """The endpoint that a webhook names; without a name the forge's only one.

        Raises ResourceNotFound.
        """
        found = [
            each
            for each in self._endpoints
            if each.forge == forge and (name is None or each.name == name)
        ]
        if len(found) != 1:
            raise ResourceNotFound(kind="endpoint", name=forge if name is None else name)
        return found[0]

    def of_tenant(self, tenant: str, name: str) -> Endpoint:
        """The tenant's endpoint of this name; another tenant's is ResourceNotFound (X8)."""
        for each in self._endpoints:
            if (each.tenant, each.name) == (tenant, name):
                return each
        raise ResourceNotFound(kind="endpoint", name=name)
