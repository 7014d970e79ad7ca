"""`fencepost` and `python -m fencepost.cli`."""

import sys

EXIT_USAGE = 2
NOT_INSTALLED = "The command line is an extra of its own: install fencepost[cli].\n"


def main() -> None:
    """Runs the command line; ends the process with its exit code."""
    try:
        from fencepost.cli.app import app  # noqa: PLC0415  (typer may be missing)
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.stderr.write(NOT_INSTALLED)
        raise SystemExit(EXIT_USAGE) from None
    app(prog_name="fencepost")


if __name__ == "__main__":
    main()
