"""Accounts that an endpoint trusts: they command where a body does not show that they may."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from services.ingress.endpoints.model import ForgeKind
from tests.services.ingress.desk import Desk
from tests.services.ingress.gitea_pulls import gitea_comment
from tests.services.ingress.gitlab_merges import PROJECT, note_document
from tests.services.ingress.intake.asking import Asking
from tests.services.ingress.published import comment_document, put

ANN, BEN = 9001, 9002


@dataclass(frozen=True)
class Forge:
    """A comment on a public project: the event, its body, and where it names who is who."""

    event: str
    document: Mapping[str, Any]
    sender: str
    login: str
    author_id: str

    def body(self, *, sender: int, author: int, login: str = "ann") -> bytes:
        """The comment of an author, as somebody sent it."""
        said = put(copy.deepcopy({**self.document}), self.author_id, author)
        who = {"id": sender, self.login: login, "type": "User"}
        return json.dumps(put(said, self.sender, who)).encode()


GITEA = Forge(
    "issue_comment",
    put(gitea_comment(), "repository.private", False),
    "sender",
    "login",
    "comment.user.id",
)
FORGES: Mapping[ForgeKind, Forge] = MappingProxyType(
    {
        ForgeKind.GITHUB: Forge(
            "issue_comment",
            comment_document("/review", id=1, author_association="CONTRIBUTOR"),
            "sender",
            "login",
            "comment.user.id",
        ),
        ForgeKind.GITLAB: Forge(
            "note",
            {**note_document(), "project": {**PROJECT, "visibility_level": 20}},
            "user",
            "username",
            "object_attributes.author_id",
        ),
        ForgeKind.GITEA: GITEA,
        ForgeKind.FORGEJO: GITEA,
    }
)


def asking(desk: Desk, kind: ForgeKind, **changes: Any) -> Asking:
    """An endpoint of the forge that trusts one account."""
    return Asking.at(desk, **{"forge": kind, "trusted_ids": frozenset({ANN}), **changes})


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize("kind", ForgeKind)
async def test_a_trusted_account_commands_on_a_public_project(desk: Desk, kind: ForgeKind) -> None:
    forge, at = FORGES[kind], asking(desk, kind)
    trusted = await at.tell("d-1", forge.body(sender=ANN, author=ANN), event=forge.event)
    assert (trusted.reason, len(trusted.intent_ids)) == ("", 2)
    stranger = await at.tell("d-2", forge.body(sender=BEN, author=BEN), event=forge.event)
    assert (stranger.reason, stranger.intent_ids) == ("sender-untrusted", ())


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize("kind", ForgeKind)
async def test_trust_goes_by_the_forges_number_and_by_no_name(desk: Desk, kind: ForgeKind) -> None:
    forge, at = FORGES[kind], asking(desk, kind)
    named = forge.body(sender=BEN, author=BEN, login=str(ANN))
    assert (await at.tell("d-1", named, event=forge.event)).reason == "sender-untrusted"


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize("kind", ForgeKind)
async def test_what_a_trusted_account_edits_for_another_asks_for_nothing(
    desk: Desk, kind: ForgeKind
) -> None:
    forge, at = FORGES[kind], asking(desk, kind)
    for sender, author in ((ANN, BEN), (BEN, ANN)):
        edited = forge.body(sender=sender, author=author)
        told = await at.tell(f"d-{sender}", edited, event=forge.event)
        assert (told.reason, told.intent_ids) == ("edited-by-another", ())


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize("kind", ForgeKind)
async def test_no_bot_of_ours_commands_by_being_trusted(desk: Desk, kind: ForgeKind) -> None:
    forge, at = FORGES[kind], asking(desk, kind, bot_ids=frozenset({ANN}))
    told = await at.tell("d-1", forge.body(sender=ANN, author=ANN), event=forge.event)
    assert (told.reason, told.intent_ids) == ("own-bot", ())


@pytest.mark.guarantee("I8")
async def test_no_program_commands_by_being_trusted(desk: Desk) -> None:
    forge, at = FORGES[ForgeKind.GITHUB], asking(desk, ForgeKind.GITHUB)
    document = json.loads(forge.body(sender=ANN, author=ANN))
    body = json.dumps(put(document, "sender.type", "Bot")).encode()
    told = await at.tell("d-1", body, event=forge.event)
    assert (told.reason, told.intent_ids) == ("sender-is-bot", ())
