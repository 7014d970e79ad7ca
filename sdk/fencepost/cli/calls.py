"""One call of a command: connected, made, and its refusal told in a sentence with an exit code."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import typer

from fencepost import metadata
from fencepost.cli.connection import TENANT_NAMES, Connection
from fencepost.cli.output import plain
from fencepost.environment import CERTIFICATE_FILE

if TYPE_CHECKING:
    from fencepost.channel import Channel, ChannelSettings
    from fencepost.errors import FencepostError

T = TypeVar("T")

EXIT_REFUSED: Final = 1
EXIT_UNAVAILABLE: Final = 3
UNAVAILABLE: Final = ("UNAVAILABLE", "DEADLINE_EXCEEDED")


def call(connection: Connection, work: "Callable[[Channel], Awaitable[T]]") -> T:
    """The answer; a refusal ends the command."""
    from fencepost.errors import FencepostError  # noqa: PLC0415  (keeps --help quick)

    try:
        return attempt(connection, work)
    except FencepostError as error:
        end_refused(connection, error)


def attempt(connection: Connection, work: "Callable[[Channel], Awaitable[T]]") -> T:
    """The answer; raises FencepostError."""
    from fencepost import channel  # noqa: PLC0415  (keeps --help quick)

    settings = _reach(connection)

    async def connected() -> T:
        async with channel.connect(settings) as opened:
            return await work(opened)

    return asyncio.run(connected())


def end_refused(connection: Connection, error: "FencepostError", *, hint: str = "") -> NoReturn:
    """Tells why, and what to do next; ends with 3 where trying again may help, else with 1."""
    sentence = " ".join(part for part in (_sentence(connection, error), hint) if part)
    if connection.as_json:
        told = {
            "reason": error.reason or error.code.name,
            "code": error.code.name,
            "message": sentence,
            "retriable": error.retriable,
        }
        typer.echo(json.dumps({"error": told}, ensure_ascii=False, indent=2))
    else:
        typer.echo(plain(sentence), err=True)
    raise typer.Exit(EXIT_UNAVAILABLE if error.code.name in UNAVAILABLE else EXIT_REFUSED)


def _sentence(connection: Connection, error: "FencepostError") -> str:
    address, service, code = connection.address, connection.service, error.code.name
    if not error.reason and code == "UNAVAILABLE":
        return (
            f"Nobody answers at {address}: is {service} running there? Start the suite with "
            f"`make run`, or name where it is with --address or {connection.variable}. "
            f"{_may_need_a_certificate(connection)}({error.message})"
        )
    if not error.reason and code == "UNIMPLEMENTED":
        return (
            f"What answers at {address} does not know this call: is it {service}? Name where "
            f"that is with --address or {connection.variable}."
        )
    where = ""
    if code == "UNAUTHENTICATED":
        where = f" (The key was read from {connection.key_source}.)"
    message = error.message.replace(metadata.TENANT, TENANT_NAMES)
    return f"{error.reason or code}: {message}{where}"


def _may_need_a_certificate(connection: Connection) -> str:
    """A server that misses a client's certificate hangs up without a word."""
    from fencepost import channel  # noqa: PLC0415  (keeps --help quick)

    shown = connection.tls is not None and connection.tls.certificate is not None
    if shown or channel.is_plain(_reach(connection)):
        return ""
    return (
        "If it asks callers for a certificate, name one with --certificate-file or "
        f"{CERTIFICATE_FILE}. "
    )


def _reach(connection: Connection) -> "ChannelSettings":
    from fencepost.channel import ChannelSettings  # noqa: PLC0415  (keeps --help quick)

    return ChannelSettings(
        target=connection.address,
        api_key=connection.api_key,
        tenant=connection.tenant,
        tls=connection.tls,
        allow_plaintext=connection.plaintext,
        # A person is told at once what is wrong, and says the command again.
        retries=False,
    )
