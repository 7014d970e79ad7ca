"""The options that commands share."""

from pathlib import Path
from typing import Annotated, Final

import typer

WATCHDOG: Final = "FENCEPOST_WATCHDOG"
INGRESS: Final = "FENCEPOST_INGRESS"
API_KEY: Final = "FENCEPOST_API_KEY"
API_KEY_FILE: Final = "FENCEPOST_API_KEY_FILE"

DEFAULT_ADDRESSES: Final = {WATCHDOG: "127.0.0.1:7104", INGRESS: "127.0.0.1:7101"}
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
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        envvar="FENCEPOST_TENANT",
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
        envvar="FENCEPOST_CA_FILE",
        metavar="FILE",
        help="Authorities to trust (PEM) instead of the public ones.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Plaintext = Annotated[
    bool,
    typer.Option(
        "--plaintext",
        envvar="FENCEPOST_PLAINTEXT",
        help="No TLS, though the address is not of this machine.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
