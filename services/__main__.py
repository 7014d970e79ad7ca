"""`python -m services`: the whole suite on one machine, and the steps that go before it.

python -m services              database, migration, first keys, four services; Ctrl-C stops all
python -m services migrate      brings a database to the schema of this code, once
python -m services bootstrap    makes the first API keys, once
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

COMMANDS = {
    "run": "services.run_command",
    "migrate": "services.migrate_command",
    "bootstrap": "services.bootstrap",
}
EXIT_USAGE = 2


def main() -> int:
    """Runs the named command, else the suite; only its own modules are imported."""
    arguments = sys.argv[1:]
    if arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
    elif {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    else:
        name = "run"
    if name not in COMMANDS:
        print(f"python -m services has no command {name!r}.\n\n{__doc__}", file=sys.stderr)
        return EXIT_USAGE
    command: Callable[[Sequence[str]], int] = import_module(COMMANDS[name]).main
    return command(arguments)


if __name__ == "__main__":
    sys.exit(main())
