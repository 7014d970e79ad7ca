"""Registered sources of deliveries: the registration decides forge, secrets and routing (I5)."""

from services.ingress.endpoints.model import DraftPolicy, Endpoint, Route

__all__ = ["DraftPolicy", "Endpoint", "Route"]
