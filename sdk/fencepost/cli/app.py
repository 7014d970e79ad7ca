"""Every command, and what `fencepost --help` says."""

from typing import Annotated

import typer

import fencepost
from fencepost.cli import connections, deliveries, endpoints, init, keys, status, submit, timeline

HELP = """Fencepost: how the suite is, what happened to a piece of work, and who may call.

Start with `fencepost status`, or with `fencepost timeline` and the address of a pull request.

The key is read from FENCEPOST_API_KEY, or from the file that FENCEPOST_API_KEY_FILE names, or in
a checkout from .fencepost/keys.env, which the suite wrote when it first started.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no answer (try again).
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    # A traceback with local values would show keys.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("status", help=status.HELP)(status.status)
app.command("timeline", help=timeline.HELP)(timeline.timeline)
app.command("deliveries", help=deliveries.HELP)(deliveries.deliveries)
app.command("submit", help=submit.HELP)(submit.submit)
app.command("init", help=init.HELP)(init.init)
app.add_typer(endpoints.app, name="endpoints")
app.add_typer(connections.app, name="connections")
app.add_typer(keys.app, name="keys")


def _show_version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it so)
    if wanted:
        print(f"fencepost {fencepost.__version__}")
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options before the command."""
    del version
