"""What counts as a command in a comment, and whose comments count."""

import re
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingress.comments_rules import (
    COMMANDS_MAX,
    COMMENT_CHARACTERS_MAX,
    Comment,
    commands_of,
    read_commands,
)
from services.ingress.rules import AskKind, IgnoredReason, Reading, WorkAsked

ANN, BEN = 31, 32
ASKS = WorkAsked(
    kind=AskKind.COMMAND,
    repo_id=1,
    repo_name="gadgets/hello-world",
    number=2,
    head_sha=None,
    url="",
    comment_id=3,
    commands=("review",),
)


def said(text: str = "/review", **changes: object) -> Comment:
    values = {"author_id": ANN, "trusted": True, "by_bot": False, "closed": False}
    return Comment(**{"text": text, **values, **changes})  # type: ignore[arg-type]  # by name


def answer(comment: Comment, sender_id: int | None = ANN) -> Reading:
    about = {} if sender_id is None else {"sender_id": sender_id}
    return read_commands("edited", comment, about, lambda _: ASKS)


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("/review", ("review",)),
        ("/review please\n", ("review",)),
        ("/review\tnow", ("review",)),
        ("Thanks!\r\n/fix-2\r\n\r\n/review\r\n", ("fix-2", "review")),
        ("/review\n/review again", ("review",)),
        ("one\r/review", ("review",)),
        ("", ()),
        ("looks odd", ()),
        ("please /review", ()),
        (" /review", ()),
        ("/", ()),
        ("//review", ()),
        ("/Review", ()),
        ("/2fix", ()),
        ("/-fix", ()),
        ("/usr/bin/env", ()),
        ("/review.", ()),
        ("/revi\u00e9w", ()),
        ("/review\u00a0now", ()),
        ("one\u2028/review", ()),
        ("one\x0b/review", ()),
        (f"/{'a' * 50}", ("a" * 50,)),
        (f"/{'a' * 51}", ()),
    ],
)
def test_a_command_is_a_word_at_the_beginning_of_a_line(
    text: str, commands: tuple[str, ...]
) -> None:
    assert commands_of(text) == commands


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("> /review", ()),
        (">/review\n> ```\n/fix", ("fix",)),
        ("```\n/review\n```\n/fix", ("fix",)),
        ("   ```sh\n/review\n  ```  \n/fix", ("fix",)),
        ("~~~\n/review\n```\n/review\n~~~\n/fix", ("fix",)),
        ("````\n```\n/review\n````\n/fix", ("fix",)),
        ("```\n/review\n````\n/fix", ("fix",)),
        ("```\n/review\n``` no end\n/fix", ()),
        ("```\n/review\n    ```\n/fix", ()),
        ("```\n/review", ()),
        ("``` a `b`\n/fix", ("fix",)),
        ("``\n/fix", ("fix",)),
        ("<!-- write\n/review\nto begin -->\n/fix", ("fix",)),
        ("<!-- one --> two <!--\n/review\n-->", ()),
        ("<!-- one -->\n/fix", ("fix",)),
        ("```\n<!--\n```\n/fix", ("fix",)),
    ],
)
def test_what_is_quoted_fenced_or_hidden_is_no_command(
    text: str, commands: tuple[str, ...]
) -> None:
    assert commands_of(text) == commands


def test_a_line_made_of_marks_costs_no_more_than_another() -> None:
    began_s = process_time()
    assert commands_of("`" * (COMMENT_CHARACTERS_MAX - 10) + "x`\n/fix") == ("fix",)
    assert process_time() - began_s < 0.1


def test_a_comment_gives_a_bounded_number_of_commands() -> None:
    found = commands_of("\n".join(f"/a{n}" for n in range(COMMANDS_MAX + 5)))
    assert found == tuple(f"a{n}" for n in range(COMMANDS_MAX))


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.sampled_from("/ab-A 9\n\r`~>< !\t\u2028")))
def test_every_command_stands_at_the_beginning_of_a_line(text: str) -> None:
    lines = re.split(r"[\r\n]+", text)
    for command in commands_of(text):
        assert any(re.match(rf"/{command}([ \t]|$)", line) for line in lines)


@pytest.mark.guarantee("I6")
def test_who_wrote_a_comment_and_may_command_is_obeyed() -> None:
    reading = answer(said())
    assert (reading.asks, reading.ignored) == (ASKS, None)
    assert reading.projection["commands"] == "review"


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    ("comment", "sender_id", "reason"),
    [
        (said("looks odd"), ANN, IgnoredReason.NO_COMMAND),
        (said("looks odd", trusted=False), BEN, IgnoredReason.NO_COMMAND),
        (said(closed=True), ANN, IgnoredReason.CLOSED),
        (said(by_bot=True), ANN, IgnoredReason.SENDER_IS_BOT),
        (said(), BEN, IgnoredReason.EDITED_BY_ANOTHER),
        (said(), None, IgnoredReason.EDITED_BY_ANOTHER),
        (said(author_id=None), ANN, IgnoredReason.EDITED_BY_ANOTHER),
        (said(author_id=None), None, IgnoredReason.EDITED_BY_ANOTHER),
        (said(trusted=False), ANN, IgnoredReason.SENDER_UNTRUSTED),
    ],
)
def test_what_is_unknown_of_a_comment_makes_it_ask_for_nothing(
    comment: Comment, sender_id: int | None, reason: IgnoredReason
) -> None:
    reading = answer(comment, sender_id)
    assert (reading.asks, reading.ignored) == (None, reason)
