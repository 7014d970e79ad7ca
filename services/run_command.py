"""`python -m services`: the suite in the foreground, until Ctrl-C, SIGTERM or the end of a part."""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.bootstrap import BootstrapRefusedError
from services.command_settings import SuiteSettings
from services.handover import HandoverRefusedError
from services.suite import Suite, SuiteError
from shared.embedded import EmbeddedPostgresError
from shared.schema.grants import SERVICES
from shared.schema.refusals import MigrationRefusedError
from shared.settings import load

EXIT_FAILED = 1
ENDPOINTS = """\
              once it is declared: .venv/bin/fencepost endpoints apply --tenant {tenant} -f FILE"""
NO_FORGE_TOKEN = """\
  forge       nothing is sent before there is a connection (docs/connections.md):
              .venv/bin/fencepost connections put github.com --tenant {tenant}"""
REFUSALS = (
    BootstrapRefusedError,
    EmbeddedPostgresError,
    HandoverRefusedError,
    MigrationRefusedError,
    SuiteError,
)


def main(arguments: Sequence[str]) -> int:
    """Runs the suite; returns 0 after Ctrl-C or SIGTERM, 1 after a sentence."""
    options = _parser().parse_args(arguments)
    settings = load(SuiteSettings)
    environment = dict(os.environ)  # noqa: TID251 - handed to the services, each its own part
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    suite = Suite(
        options.data_folder,
        environment=environment,
        database_url=settings.owner_url,
        service_urls=settings.service_urls,
        logs=options.logs,
    )
    try:
        with suite:
            _say(_welcome(suite, environment))
            suite.wait()
    except KeyboardInterrupt:
        _say("Stopped.")
    except REFUSALS as refused:
        sys.stderr.write(f"{refused}\n")
        return EXIT_FAILED
    return 0


def _welcome(suite: Suite, environment: Mapping[str, str]) -> str:
    database = "of DATABASE_URL"
    if suite.database is not None:
        own = suite.database
        database = f"{own.url_without_password}, password in {own.password_file}"
    lines = [
        "Fencepost runs; Ctrl-C stops it.",
        "",
        f"  webhooks    http://{suite.addresses.webhooks}/webhooks/github/ENDPOINT",
        ENDPOINTS.format(tenant=suite.tenant),
        *(
            f"  {service:<11} gRPC {suite.addresses.grpc[service]}, "
            f"http://{suite.addresses.admin[service]}/readyz and /metrics"
            for service in SERVICES
        ),
        *_for_bots(suite),
        *([] if _has_forge_token(environment) else [NO_FORGE_TOKEN.format(tenant=suite.tenant)]),
        f"  database    {database}",
        f"  keys        {suite.keys_file}",
    ]
    return "\n".join(lines)


def _for_bots(suite: Suite) -> list[str]:
    grpc = suite.addresses.grpc
    addresses = f"FENCEPOST_DISPATCHER={grpc['dispatcher']} FENCEPOST_PUBLISHER={grpc['publisher']}"
    key = f"FENCEPOST_API_KEY=the WORKER_API_KEY of the keys file, of tenant {suite.tenant}"
    return [f"  bots        {addresses}", f"              {key}"]


def _has_forge_token(environment: Mapping[str, str]) -> bool:
    return any(environment.get(f"PUBLISHER_FORGE_TOKEN{end}") for end in ("", "_FILE"))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m services run",
        description="The whole suite on this machine, with a database of its own unless "
        "DATABASE_URL names one. Services read their own variables: docs/configuration.md.",
    )
    parser.add_argument(
        "--data-folder",
        type=Path,
        default=Path(".fencepost"),
        help="database, keys and logs (%(default)s)",
    )
    parser.add_argument(
        "--logs",
        choices=("files", "here"),
        default="files",
        help="where services log: files in the data folder, or here, as in a container",
    )
    return parser
