"""Stands in for the REST APIs of forges: python -m examples.scripted_forge --data FOLDER.

GitHub's is at its root, GitLab's below /api/v4, that of Gitea and Forgejo below /api/v1.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from examples.scripted_forge.app import build_app
from examples.scripted_forge.connections import Connections
from examples.scripted_forge.database import FolderInUseError, open_database
from examples.serving import exit_zero_on_signals, http_server, listen, parse_address, shown


def main() -> None:
    """Serves until SIGTERM; prints one line when ready."""
    exit_zero_on_signals()
    arguments = _arguments()
    token = _token()
    try:
        database = open_database(arguments.data)
    except FolderInUseError as error:
        sys.exit(str(error))
    listener, connections = listen(arguments.address), Connections()
    app = build_app(database, token=token, app_slug=arguments.app_slug, connections=connections)
    server = http_server(
        app,
        protocol=connections.protocol(),
        announce=lambda: print(f"scripted forge ready at http://{shown(listener)}", flush=True),
    )
    asyncio.run(server.serve(sockets=[listener]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.scripted_forge", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of its SQLite file")
    parser.add_argument("--address", type=parse_address, default=("127.0.0.1", 7120))
    parser.add_argument("--app-slug", default="fencepost", help="the bot is SLUG[bot]")
    return parser.parse_args()


def _token() -> str:
    environment = os.environ  # noqa: TID251 # an example brings no settings class along
    token = environment.get("FORGE_TOKEN", "")
    if not token and (path := environment.get("FORGE_TOKEN_FILE")):
        token = Path(path).read_text(encoding="utf-8").strip()
    if not token:
        sys.exit("set FORGE_TOKEN or FORGE_TOKEN_FILE: the token callers must present")
    return token


if __name__ == "__main__":
    main()
