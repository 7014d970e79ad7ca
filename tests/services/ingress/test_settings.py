"""Settings: what belongs together, and what a secret's file may hold."""

from pathlib import Path

import pytest

from services.ingress.endpoints import Endpoints
from services.ingress.settings import IngressSettings
from shared.settings import SettingsError, read

NEEDED = {"INGRESS_DATABASE_URL": "postgresql://ingress:x@127.0.0.1:5432/fencepost"}
ENDPOINT = NEEDED | {"INGRESS_ENDPOINT_NAME": "github", "INGRESS_ENDPOINT_TENANT": "acme"}


def test_without_an_endpoint_there_is_none() -> None:
    settings = read(IngressSettings, NEEDED)
    assert settings.webhook_address == "127.0.0.1:7100"
    with pytest.raises(Exception, match="no endpoint"):
        Endpoints.of(settings).of_forge("github", None)


def test_several_secrets_may_live_and_stand_in_files(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("new secret\n")
    settings = read(
        IngressSettings,
        ENDPOINT
        | {
            "INGRESS_ENDPOINT_SECRET_FILE": str(file),
            "INGRESS_ENDPOINT_SECRET_PREVIOUS": "old secret",
        },
    )
    endpoint = Endpoints.of(settings).of_forge("github", "github")
    assert endpoint.secrets == (b"new secret", b"old secret")
    assert "new secret" not in repr(endpoint) + repr(settings)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (ENDPOINT, "INGRESS_ENDPOINT_SECRET must be"),
        (NEEDED | {"INGRESS_ENDPOINT_NAME": "x"}, "INGRESS_ENDPOINT_TENANT must be"),
        (NEEDED | {"INGRESS_ENDPOINT_NAME": "Not A Name"}, "INGRESS_ENDPOINT_NAME"),
        (NEEDED | {"INGRESS_ENDPOINT_FORGE": "gogs"}, "INGRESS_ENDPOINT_FORGE"),
        (NEEDED | {"INGRESS_ENDPOINT_FORGE": "gitea"}, "INGRESS_ENDPOINT_FORGE_INSTANCE must name"),
        (NEEDED | {"INGRESS_ENDPOINT_PROOF": "token"}, "INGRESS_ENDPOINT_PROOF is token"),
        (
            ENDPOINT
            | {
                "INGRESS_ENDPOINT_FORGE": "gitlab",
                "INGRESS_ENDPOINT_FORGE_INSTANCE": "gitlab.com",
                "INGRESS_ENDPOINT_SECRET": "no-signing-token",
            },
            "INGRESS_ENDPOINT_SECRET must be a signing token",
        ),
        (NEEDED | {"INGRESS_MESSAGE_LIMIT_BYTES": "26214400"}, "INGRESS_MESSAGE_LIMIT_BYTES"),
        (NEEDED | {"DEDUPE_TTL_SECONDS": "0"}, "DEDUPE_TTL_SECONDS"),
        (
            {"INGRESS_DISPATCHER_TLS_CA_FILE": "/nowhere/ca.pem"},
            "INGRESS_DISPATCHER_TLS_CA_FILE",
        ),
    ],
)
def test_what_does_not_fit_is_said(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        read(IngressSettings, variables)


@pytest.mark.parametrize("variable", ["DEDUPE_TTL_SECONDS", "INGRESS_DEDUPE_TTL_SECONDS"])
def test_the_life_of_markers_has_two_names(variable: str) -> None:
    assert read(IngressSettings, NEEDED).dedupe_ttl_seconds == 604_800
    assert read(IngressSettings, NEEDED | {variable: "60"}).dedupe_ttl_seconds == 60
