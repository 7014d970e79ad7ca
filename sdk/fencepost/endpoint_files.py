"""Endpoints as a file declares them: TOML, one `[[endpoint]]` each with its `[[endpoint.route]]`s.

Fields are those of the contract's Endpoint and Route, enumerations in small letters. What need not
be said has a default; `secret_file` names, seen from the file, what holds the webhook secret.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import ParseDict, ParseError

from fencepost.ingress.v1 import endpoints_pb2 as pb

SECRET_FILE: Final = "secret_file"
SECRET_BYTES_MAX: Final = 4096
HOSTS: Final = {"github": "github.com", "gitlab": "gitlab.com"}
DEFAULTS: Final = {"proof": "signature", "drafts": "ignore"}
NOT_DECLARED: Final = frozenset(
    {"tenant", "webhook_path", "secrets", "created_at", "changed_at", "disabled_at", "routes"}
)
PREFIXES: Final = {"forge": "FORGE_KIND_", "proof": "PROOF_", "drafts": "DRAFT_POLICY_"}
_ENUMERATIONS: Final = {
    "forge": pb.ForgeKind.DESCRIPTOR,
    "proof": pb.Proof.DESCRIPTOR,
    "drafts": pb.DraftPolicy.DESCRIPTOR,
}


class EndpointFileError(ValueError):
    """The file declares no endpoints; the sentence says where and why."""


def read_file(path: Path) -> list[pb.PutEndpointRequest]:
    """What the file declares, with the secrets that it names; raises EndpointFileError."""
    text = _text(path, "the file")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise EndpointFileError(f"{path} is no TOML: {error}.") from None
    tables = document.pop("endpoint", [])
    if document or not isinstance(tables, list) or not tables:
        raise EndpointFileError(f"{path} must hold [[endpoint]] tables and nothing else.")
    requests = [_request(path, number, table) for number, table in enumerate(tables, 1)]
    names = [request.endpoint.name for request in requests]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise EndpointFileError(f"{path} declares {', '.join(doubled)} twice.")
    return requests


def read_secret(path: Path) -> str:
    """The one secret that a file holds; raises EndpointFileError."""
    secret = _text(path, "the secret").rstrip("\r\n")
    if not secret or len(secret) > SECRET_BYTES_MAX:
        raise EndpointFileError(f"{path} must hold one secret of up to {SECRET_BYTES_MAX} letters.")
    return secret


def word_of(field: str, number: int) -> str:
    """How a file says a value of an enumeration; one of a later version is its number."""
    value = _ENUMERATIONS[field].values_by_number.get(number)
    return str(number) if value is None else value.name.removeprefix(PREFIXES[field]).lower()


def _request(path: Path, number: int, table: Mapping[str, Any]) -> pb.PutEndpointRequest:
    fields = {**DEFAULTS, "forge_instance": HOSTS.get(str(table.get("forge")), ""), **table}
    secret_file = fields.pop(SECRET_FILE, None)
    if stray := sorted(NOT_DECLARED & fields.keys()):
        raise EndpointFileError(f"{path}, endpoint {number}: {stray[0]} cannot be declared.")
    fields["routes"] = fields.pop("route", [])
    for name, prefix in PREFIXES.items():
        if name in fields:
            fields[name] = prefix + str(fields[name]).upper()
    try:
        endpoint = ParseDict(fields, pb.Endpoint())
    except ParseError as error:
        raise EndpointFileError(f"{path}, endpoint {number}: {error}") from None
    secret = read_secret(path.parent / secret_file) if secret_file else ""
    return pb.PutEndpointRequest(endpoint=endpoint, secret=secret)


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise EndpointFileError(f"{path}, {what}, cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise EndpointFileError(f"{path}, {what}, is not UTF-8 text.") from None
