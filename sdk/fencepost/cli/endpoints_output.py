"""How endpoints and what changes of them are shown; a secret never is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencepost.cli.output import console, plain, show_json, shown_time, stamp

if TYPE_CHECKING:
    from fencepost.ingress.v1 import endpoints_pb2 as pb

    Requests = Sequence[pb.PutEndpointRequest]
    Answers = Sequence[pb.PutEndpointResponse]

NOTHING = "Everything is as declared."
NOT_APPLIED = "Nothing was applied."


def show_list(endpoints: "Sequence[pb.Endpoint]", *, as_json: bool) -> None:
    """Endpoints, one a line."""
    if as_json:
        show_json({"endpoints": [as_document(endpoint) for endpoint in endpoints]})
        return
    from rich.table import Table  # noqa: PLC0415  (keeps --help quick)
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("tenant", "name", "forge", "posted to", "routes", "secrets", "disabled"):
        table.add_column(name, no_wrap=name == "posted to", overflow="fold")
    for endpoint in endpoints:
        cells = (
            endpoint.tenant,
            endpoint.name,
            f"{_forge(endpoint)} {endpoint.forge_instance}",
            endpoint.webhook_path,
            ", ".join(f"{route.action} on {route.queue}" for route in endpoint.routes),
            str(len(endpoint.secrets)),
            shown_time(endpoint.disabled_at)[:16] if endpoint.HasField("disabled_at") else "no",
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    console().print(table)


def show_changes(requests: "Requests", preview: "Answers") -> None:
    """What would change, endpoint by endpoint, like a diff."""
    for request, answer in zip(requests, preview, strict=True):
        if not (answer.created or answer.changes):
            continue
        print(plain(f"{'+' if answer.created else '~'} {request.endpoint.name}"))
        for change in answer.changes:
            print(plain(f"    {_line(change, new=answer.created)}"))


def show_applied(requests: "Requests", answers: "Answers", *, applied: bool, as_json: bool) -> None:
    """What became of it, or would."""
    if as_json:
        documents = [_put(r, a) for r, a in zip(requests, answers, strict=True)]
        show_json({"applied": applied, "endpoints": documents})
    elif not any(answer.created or answer.changes for answer in answers):
        print(NOTHING)
    elif not applied:
        print(NOT_APPLIED)
    else:
        for answer in answers:
            disabled = "; it is disabled, say --enable" if _is_disabled(answer.endpoint) else ""
            print(plain(f"{answer.endpoint.name} takes {answer.endpoint.webhook_path}{disabled}."))


def show_rotated(answer: "pb.RotateEndpointSecretResponse", *, as_json: bool) -> None:
    """The secrets that count now."""
    endpoint = answer.endpoint
    if as_json:
        show_json({"rotated": answer.rotated, "endpoint": as_document(endpoint)})
        return
    if not answer.rotated:
        print(plain(f"That is the newest secret of {endpoint.name} already: nothing was changed."))
        return
    print(plain(f"Endpoint {endpoint.name} has a new secret: set it on the forge in 5 s or later."))
    for secret in endpoint.secrets:
        if secret.HasField("live_until"):
            print(f"Secret {secret.version} counts until {shown_time(secret.live_until)}.")


def show_disabled(endpoint: "pb.Endpoint", *, as_json: bool) -> None:
    """The endpoint that is not served any more."""
    if as_json:
        show_json({"endpoint": as_document(endpoint)})
    else:
        since = shown_time(endpoint.disabled_at)
        print(plain(f"Endpoint {endpoint.name} is disabled since {since}."))
        print("Every replica takes nothing in from it within five seconds.")


def as_document(endpoint: "pb.Endpoint") -> dict[str, Any]:
    """An endpoint for programs."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415  (keeps --help quick)

    return {
        "tenant": endpoint.tenant,
        "name": endpoint.name,
        "forge": _forge(endpoint),
        "forge_instance": endpoint.forge_instance,
        "proof": word_of("proof", endpoint.proof),
        "routes": [
            {
                "action": route.action,
                "queue": route.queue,
                "repo_ids": list(route.repo_ids),
                "commands": list(route.commands),
                "checks": route.checks,
            }
            for route in endpoint.routes
        ],
        "bot_ids": list(endpoint.bot_ids),
        "trusted_ids": list(endpoint.trusted_ids),
        "wanted_events": list(endpoint.wanted_events),
        "drafts": word_of("drafts", endpoint.drafts),
        "body_limit_bytes": endpoint.body_limit_bytes or None,
        "webhook_path": endpoint.webhook_path,
        "secrets": [
            MessageToDict(secret, preserving_proto_field_name=True) for secret in endpoint.secrets
        ],
        "created_at": stamp(endpoint.created_at),
        "changed_at": stamp(endpoint.changed_at),
        "disabled_at": stamp(endpoint.disabled_at, is_set=_is_disabled(endpoint)),
    }


def _put(request: "pb.PutEndpointRequest", answer: "pb.PutEndpointResponse") -> dict[str, Any]:
    stored = answer.HasField("endpoint")
    return {
        "name": request.endpoint.name,
        "created": answer.created,
        "changes": [
            {"field": change.field, "before": change.before or None, "after": change.after or None}
            for change in answer.changes
        ],
        "webhook_path": answer.endpoint.webhook_path if stored else None,
    }


def _line(change: "pb.FieldChange", *, new: bool) -> str:
    if new:
        return f"{change.field} = {change.after}"
    return f"{change.field}: {change.before or '(none)'} -> {change.after or '(none)'}"


def _is_disabled(endpoint: "pb.Endpoint") -> bool:
    return endpoint.HasField("disabled_at")


def _forge(endpoint: "pb.Endpoint") -> str:
    return word_of("forge", endpoint.forge)


def word_of(field: str, value: int) -> str:
    """A value as files say it; one of a later version as its number."""
    from fencepost import endpoint_files  # noqa: PLC0415  (keeps --help quick)

    return endpoint_files.word_of(field, value)
