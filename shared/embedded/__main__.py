"""`python -m shared.embedded --data-folder X [--port N]`: a database for a shell, until Ctrl-C."""

import argparse
import signal
import sys
from pathlib import Path

from shared.embedded import EmbeddedPostgres, EmbeddedPostgresError


def main() -> None:
    """Runs the database in the foreground; exits 0 after Ctrl-C or SIGTERM, 1 with a sentence."""
    arguments = parse_arguments()
    # A shell's background job is born with SIGINT ignored.
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop_signal, signal.default_int_handler)
    try:
        run(EmbeddedPostgres(arguments.data_folder, port=arguments.port))
    except EmbeddedPostgresError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(0)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m shared.embedded", description=__doc__)
    parser.add_argument("--data-folder", type=Path, required=True)
    parser.add_argument("--port", type=int, help="on 127.0.0.1; a free one if not given")
    return parser.parse_args()


def run(database: EmbeddedPostgres) -> None:
    """Prints the address, without the password, and waits."""
    with database:
        sys.stderr.write(f"The password is in PGPASSFILE={database.password_file}\n")
        sys.stdout.write(f"{database.url_without_password}\n")
        sys.stdout.flush()
        exit_code = database.wait()
    sys.exit(f"PostgreSQL ended by itself with code {exit_code}: see its log {database.log_file}")


if __name__ == "__main__":
    main()
