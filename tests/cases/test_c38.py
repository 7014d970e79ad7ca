"""Names that need encoding lead to the repository they name, and none leads out of it.

What the watchdog asks of forges is its own part.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import unquote

import pytest

from examples.scripted_forge.client import ScriptedForge
from services.publisher.forges.paths import repo_path
from services.publisher.heads.model import Asked, Gone, Head, Unknown
from services.publisher.model import ForgeKind
from tests.services.publisher.forges.heads import HEAD, NUMBER, Asking, made, name_of

BY_NAME = [ForgeKind.GITHUB, ForgeKind.GITEA, ForgeKind.FORGEJO]
NAMES = ["Größe-GmbH/ünï", "日本語/a b", "o/c#4?x=1&y", "a%2Fb/c%20d", "..a/b..", "o/fix:#4%20x"]

_repo_ids = itertools.count(5_000_000_001)


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedForge]:
    """A forge as a process of its own, which must end with status 0."""
    forge = ScriptedForge.start(tmp_path_factory.mktemp("forge"))
    yield forge
    assert forge.stop() == 0


def asking(forge: ScriptedForge, kind: ForgeKind) -> Asking:
    asked = Asked(repo_id=next(_repo_ids), number=NUMBER)
    made(forge, name_of(asked), asked.repo_id)
    return Asking(kind, forge, asked)


@pytest.mark.parametrize("kind", BY_NAME)
@pytest.mark.parametrize("name", NAMES)
async def test_the_exact_name_is_asked_for_after_one_decoding(
    forge: ScriptedForge, kind: ForgeKind, name: str
) -> None:
    wanted = asking(forge, kind)
    forge.rename_repo(name_of(wanted.asked), f"{name}{wanted.asked.repo_id}")
    head = await wanted.head()
    assert isinstance(head, Head)
    assert (head.repo_name, head.head_sha) == (f"{name}{wanted.asked.repo_id}", HEAD)
    asked = forge.requests(method="GET")[-1].raw_path
    assert unquote(asked).endswith(f"/repos/{head.repo_name}/pulls/{NUMBER}")
    assert asked.isascii()


async def test_gitlab_is_asked_by_numbers_whatever_the_groups_are_called(
    forge: ScriptedForge,
) -> None:
    wanted = asking(forge, ForgeKind.GITLAB)
    forge.rename_repo(name_of(wanted.asked), f"g/sub/日本 {wanted.asked.repo_id}")
    head = await wanted.head()
    assert isinstance(head, Head)
    assert head.repo_name == f"g/sub/日本 {wanted.asked.repo_id}"
    assert forge.requests(method="GET")[-1].raw_path == wanted.reads_path()


@pytest.mark.parametrize(
    "name", ["", "o", "o/", "/n", "o/n/m", "../n", "o/..", "./n", "o/.", "../../n"]
)
def test_no_name_leads_out(name: str) -> None:
    assert repo_path(name) is None


@pytest.mark.parametrize("kind", BY_NAME)
async def test_a_forge_whose_names_lead_out_is_not_asked_there(
    forge: ScriptedForge, kind: ForgeKind
) -> None:
    wanted = asking(forge, kind)
    forge.rename_repo(name_of(wanted.asked), f"../n-{wanted.asked.repo_id}")
    assert isinstance(await wanted.head(), Unknown)


@pytest.mark.parametrize("kind", list(ForgeKind))
async def test_gone_and_moved_are_told_apart(forge: ScriptedForge, kind: ForgeKind) -> None:
    wanted = asking(forge, kind)
    forge.rename_repo(name_of(wanted.asked), f"moved/here-{wanted.asked.repo_id}")
    assert isinstance(await wanted.head(), Head)
    nobody = replace(wanted, asked=replace(wanted.asked, repo_id=next(_repo_ids)))
    assert isinstance(await nobody.head(), Gone)
