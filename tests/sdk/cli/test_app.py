"""What every command shares: help, completion, where the key comes from, and exit codes."""

import inspect
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fencepost.cli import connection, connections, status, submit
from fencepost.cli.app import app
from fencepost.cli.keys import Scope
from fencepost.cli.output import length, number, plain
from fencepost.common.v1 import access_pb2
from fencepost.environment import API_KEY, VARIABLES
from typer.main import get_command
from typer.testing import CliRunner, Result

from tests.sdk.cli.terminal import SDK, Shell
from tests.services.watchdog.timeline.test_standing_rules import COMMANDS

COMMAND_NAMES = (
    ("status",),
    ("timeline",),
    ("submit",),
    ("init",),
    ("connections", "list"),
    ("connections", "put"),
    ("connections", "disable"),
    ("endpoints", "list"),
    ("endpoints", "apply"),
    ("endpoints", "rotate"),
    ("endpoints", "disable"),
    ("keys", "create"),
    ("keys", "rotate"),
    ("keys", "revoke"),
    ("keys", "list"),
)
A_KEY = f"fp_{'k' * 16}_{'s' * 43}"

Bare = Callable[..., Result]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bare:
    """A folder and an environment in which nothing is set."""
    monkeypatch.chdir(tmp_path)
    for variable in list(os.environ):  # noqa: TID251  (cleared, not read)
        if variable.startswith("FENCEPOST_"):
            monkeypatch.delenv(variable)
    return lambda *arguments, **environment: CliRunner().invoke(app, arguments, env=environment)


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    program = (
        "import json, sys, fencepost.cli.app; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(SDK)},
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"grpc", "google", "protovalidate", "buf", "opentelemetry"}
    assert not heavy & set(json.loads(done.stdout))


@pytest.mark.parametrize("name", COMMAND_NAMES, ids=" ".join)
def test_every_command_has_help_that_says_where_the_key_comes_from(
    bare: Bare, name: tuple[str, ...]
) -> None:
    told = bare(*name, "--help")
    assert told.exit_code == 0
    assert "FENCEPOST_API_KEY" in told.stdout
    assert "--json" in told.stdout


def test_without_a_command_the_help_is_shown(bare: Bare) -> None:
    told = bare()
    for part in ("status", "timeline", "submit", "keys", "Exit codes: 0 done, 1 refused"):
        assert part in told.stdout
    assert bare("--version").stdout.startswith("fencepost ")


@pytest.mark.parametrize(
    ("words", "index", "completed"),
    [("fencepost ti", "1", "timeline"), ("fencepost keys re", "2", "revoke")],
)
def test_completion_knows_the_commands(
    tmp_path: Path, words: str, index: str, completed: str
) -> None:
    asked = {"_FENCEPOST_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": index}
    assert completed in Shell(tmp_path, asked).run().out.split()


def test_the_page_names_every_command_and_variable() -> None:
    page = (SDK.parent / "docs/cli.md").read_text()
    assert [name for name in COMMAND_NAMES if f"`fencepost {' '.join(name)}" not in page] == []
    options = {
        name: option.default  # where typer keeps the first name in an annotation
        for command in (status.status, submit.submit, connections.list_connections)
        for parameter in inspect.signature(command).parameters.values()
        for option in parameter.annotation.__metadata__
        if (name := getattr(option, "envvar", None))
    }
    listed = {each.name: each.option for each in VARIABLES if each.command_line and each.option}
    assert options == {name: option.split()[0] for name, option in listed.items()}
    assert [name for name in (*options, API_KEY) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("told", COMMANDS, ids=COMMANDS)
def test_a_timeline_names_only_commands_that_exist(told: str) -> None:
    for command in COMMANDS[told][1]:
        program, name, *arguments = shlex.split(command)
        assert program == "fencepost"
        found = get_command(app).commands[name]  # type: ignore[attr-defined]  # a group has them
        found.make_context(name, arguments).close()


def test_the_scopes_are_those_of_the_contract() -> None:
    named = {f"SCOPE_{scope.name}" for scope in Scope}
    assert named == set(access_pb2.Scope.keys()) - {"SCOPE_UNSPECIFIED", "SCOPE_ANY"}
    assert {scope.value for scope in Scope} == {scope.name.lower() for scope in Scope}


def test_without_a_key_the_ways_to_one_are_named(bare: Bare) -> None:
    told = bare("status")
    assert (told.exit_code, told.stdout) == (2, "")
    for way in ("FENCEPOST_API_KEY,", "FENCEPOST_API_KEY_FILE", "`make run`", ".fencepost/keys"):
        assert way in told.stderr


def test_a_key_comes_from_the_environment_a_file_or_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FENCEPOST_API_KEY", A_KEY)
    assert connection._api_key(None) == (A_KEY, "FENCEPOST_API_KEY")
    monkeypatch.delenv("FENCEPOST_API_KEY")
    file = tmp_path / "key"
    file.write_text(f"{A_KEY}\n")
    assert connection._api_key(file) == (A_KEY, str(file))
    keys = tmp_path / ".fencepost/keys.env"
    keys.parent.mkdir()
    keys.write_text(f"# First keys.\nINGRESS_API_KEY=fp_x_y\nOPERATOR_API_KEY={A_KEY}\n")
    below = tmp_path / "sdk" / "deep"
    below.mkdir(parents=True)
    for folder in (tmp_path, below):
        monkeypatch.chdir(folder)
        assert connection._api_key(None) == (A_KEY, f"OPERATOR_API_KEY in {keys}")


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        ((), {"FENCEPOST_API_KEY": "hunter2"}, "FENCEPOST_API_KEY holds no API key"),
        ((), {"FENCEPOST_API_KEY_FILE": "nothing"}, "nothing cannot be read: No such file"),
        (("--key-file", "x"), {"FENCEPOST_API_KEY": A_KEY}, "keep one of them"),
        (
            ("--address", "http://127.0.0.1:9/"),
            {"FENCEPOST_API_KEY": A_KEY},
            "An address is HOST:PORT, not http://127.0.0.1:9/: say 127.0.0.1:9.",
        ),
        (("--ca-file", "x"), {"FENCEPOST_API_KEY": A_KEY}, "x cannot be read"),
        (("--jsno",), {"FENCEPOST_API_KEY": A_KEY}, "No such option"),
    ],
)
def test_wrong_usage_is_said_and_ends_with_2(
    bare: Bare, arguments: tuple[str, ...], environment: dict[str, str], sentence: str
) -> None:
    told = bare("status", *arguments, **environment)
    assert told.exit_code == 2
    assert sentence in told.stderr
    assert "hunter2" not in told.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("status", "--tenant", "é", "--json"), "--tenant or FENCEPOST_TENANT: a tenant is ASCII"),
        (("status", "--tenant", "\udcff"), "--tenant or FENCEPOST_TENANT: a tenant is ASCII"),
        (("timeline", "\udcff"), "is no text (UTF-8)"),
        (("submit", "-", "--endpoint", "e", "--event", "\udcff"), "is no text (UTF-8)"),
        (("timeline", ""), "DELIVERY_ID|URL is empty"),
    ],
)
def test_words_that_cannot_be_sent_are_wrong_usage(
    bare: Bare, arguments: tuple[str, ...], sentence: str
) -> None:
    told = bare(*arguments, FENCEPOST_API_KEY=A_KEY, FENCEPOST_WATCHDOG="127.0.0.1:9")
    assert told.exit_code == 2, told
    assert sentence in told.stderr


def test_who_does_not_answer_ends_the_command_with_3(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"FENCEPOST_API_KEY": A_KEY, "FENCEPOST_WATCHDOG": "127.0.0.1:9"})
    told = shell.run("status", "--json")
    assert told.code == 3
    error = json.loads(told.out)["error"]
    assert (error["code"], error["reason"], error["retriable"]) == (
        "UNAVAILABLE",
        "UNAVAILABLE",
        True,
    )
    assert "Nobody answers at 127.0.0.1:9: is the watchdog running there?" in error["message"]
    assert "--address or FENCEPOST_WATCHDOG" in error["message"]


def test_a_key_that_is_not_known_ends_the_command_with_1(shell: Shell) -> None:
    told = shell.having(FENCEPOST_API_KEY=A_KEY).run("status")
    assert told.code == 1
    assert told.err.startswith("KEY_UNKNOWN: ")
    assert told.err.endswith("(The key was read from FENCEPOST_API_KEY.)\n")
    assert A_KEY not in told.err


def test_another_service_at_the_address_is_told(shell: Shell) -> None:
    watchdog = shell.environment["FENCEPOST_WATCHDOG"]
    shell = shell.having(FENCEPOST_INGRESS=watchdog)
    told = shell.run("submit", "-", "--endpoint", "e", "--event", "push", stdin=b"{}")
    assert told.code == 1
    assert "does not know this call: is it ingress? Name where that is with" in told.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain — ä", "plain — ä"),
        ("two\nlines", "two\nlines"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("a\u202eb\r", r"a\u202eb\r"),
    ],
)
def test_nothing_that_others_wrote_moves_the_terminal(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_numbers_and_lengths_are_short() -> None:
    assert [number(value) for value in (0.0, 12.0, 1234567.0, 3.14159)] == [
        "0",
        "12",
        "1,234,567",
        "3.1",
    ]
    assert [length(value) for value in (0, 59.9, 60, 725, 12_000, 86_400, 439_200)] == [
        "0 s",
        "59 s",
        "1 min",
        "12 min 5 s",
        "3 h 20 min",
        "1 d",
        "5 d 2 h",
    ]
