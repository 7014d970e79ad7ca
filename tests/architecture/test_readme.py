"""The README shows what runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOT_LINES_MAX = 25


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
