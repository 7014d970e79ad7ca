"""Registered sources of deliveries: the registration decides forge, secrets and routing (I5)."""

from services.ingress.endpoints.model import DraftPolicy, Endpoint, Route
from services.ingress.endpoints.of_settings import Endpoints

__all__ = ["DraftPolicy", "Endpoint", "Endpoints", "Route"]
