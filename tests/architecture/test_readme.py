"""The README shows what runs."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fencepost.cli.app import app
from typer.main import get_command

ROOT = Path(__file__).parents[2]
BOT_LINES_MAX = 25
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMAND = re.compile(r"^\$ (?:\.venv/bin/)?fencepost (.+)$", re.MULTILINE)
COMMANDS = sorted({found for page in PAGES for found in COMMAND.findall(page.read_text())})


def test_its_bot_is_the_bot_of_the_demonstration() -> None:
    shown = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    bot = (ROOT / "examples/demo_bot/__main__.py").read_text()
    assert shown[1] == bot
    assert len(bot.splitlines()) <= BOT_LINES_MAX


def test_its_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named
    assert named <= targets


def test_its_two_commands_are_the_demonstration_and_the_suite() -> None:
    _, _, after = (ROOT / "README.md").read_text().partition("\n## Two commands\n")
    section, _, _ = after.partition("\n## ")
    makefile = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"^(\w+):.*\n\t@\$\(BIN\)/python -m (\S+)$", makefile, re.MULTILINE))
    started = {
        name: recipes.get(name) for name in re.findall(r"^\$ make (\w+)", section, re.MULTILINE)
    }
    assert started == {"demo": "examples.demo", "run": "services"}
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f"Needs Python {python.removeprefix('>=')} or newer" in section


@pytest.mark.parametrize("shown", COMMANDS)
def test_its_and_the_pages_command_lines_are_ones(shown: str) -> None:
    words = shlex.split(shown, comments=True)
    command: Any = get_command(app)
    while hasattr(command, "commands"):  # a group
        command = command.commands[words.pop(0)]
    command.make_context(shown, words).close()


def test_there_are_command_lines_to_try() -> None:
    assert any(shown.startswith("init ") for shown in COMMANDS)
