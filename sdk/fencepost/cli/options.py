"""The options that commands share."""

from pathlib import Path
from typing import Annotated

import typer

from fencepost.environment import (
    API_KEY,
    API_KEY_FILE,
    CA_FILE,
    CALL_PLAINTEXT,
    CERTIFICATE_FILE,
    CERTIFICATE_KEY_FILE,
    DEFAULT_ADDRESSES,
    INGRESS,
    PUBLISHER,
    TENANT,
    WATCHDOG,
)

CONNECTION_PANEL = "Connection"
WatchdogAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar=WATCHDOG,
        metavar="HOST:PORT",
        help=f"Where the watchdog is, unless {DEFAULT_ADDRESSES[WATCHDOG]}.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
IngressAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar=INGRESS,
        metavar="HOST:PORT",
        help=f"Where ingress is, unless {DEFAULT_ADDRESSES[INGRESS]}.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
PublisherAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar=PUBLISHER,
        metavar="HOST:PORT",
        help=f"Where the publisher is, unless {DEFAULT_ADDRESSES[PUBLISHER]}.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
OtherPublisherAddress = Annotated[
    str | None,
    typer.Option(
        "--publisher",
        envvar=PUBLISHER,
        metavar="HOST:PORT",
        help=f"Where the publisher is, unless {DEFAULT_ADDRESSES[PUBLISHER]}.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        envvar=TENANT,
        metavar="TENANT",
        help="Act for this tenant; only for an operator's key, which belongs to none.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        envvar=API_KEY_FILE,
        metavar="FILE",
        help=f"File that holds the API key; {API_KEY} may hold the key itself.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        envvar=CA_FILE,
        metavar="FILE",
        help="Authorities to trust (PEM) instead of the public ones.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
CertificateFile = Annotated[
    Path | None,
    typer.Option(
        "--certificate-file",
        envvar=CERTIFICATE_FILE,
        metavar="FILE",
        help="Certificate chain (PEM) to show to a server that asks for one.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
CertificateKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--certificate-key-file",
        envvar=CERTIFICATE_KEY_FILE,
        metavar="FILE",
        help="Private key (PEM) of that certificate.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Plaintext = Annotated[
    bool,
    typer.Option(
        "--plaintext",
        envvar=CALL_PLAINTEXT,
        help="No TLS, though the address is not of this machine.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
