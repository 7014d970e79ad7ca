"""Reads and writes docs/GUARANTEES.md, which has one form only."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

PROMISED = "## Promised"
NOT_PROMISED = "## Not promised yet"
UNNAMED = "(not named yet)"

PROMISE_HEAD = re.compile(r"^### (?P<rule>[A-Z]\d+b?)(?P<race> \(race\))?$", re.MULTILINE)
DRAFT = re.compile(
    r"^- \*\*(?P<rule>[A-Z]\d+b?)\*\*(?P<race> \(race\))? (?P<sentence>.+?)(?=\n- |\Z)",
    re.MULTILINE | re.DOTALL,
)
PROOF = re.compile(r"^- `(?P<test>[^`]+)`$", re.MULTILINE)


class MalformedPageError(Exception):
    """The page does not have its form; the message says where."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One rule that is kept: its sentence, what keeps it, and the tests that show it."""

    rule: str
    race: bool
    sentence: str
    mechanism: str
    proofs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One rule that is not promised yet, with the sentence it would have."""

    rule: str
    race: bool
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole page; `opening` and `apology` are the prose before the two lists."""

    opening: str
    promises: tuple[Promise, ...]
    apology: str
    drafts: tuple[Draft, ...]


def parse(text: str) -> Page:
    """Reads the page; raises MalformedPageError."""
    opening, found, rest = text.partition(f"\n{PROMISED}\n")
    promised, found_too, drafts = rest.partition(f"\n{NOT_PROMISED}\n")
    if not found or not found_too:
        raise MalformedPageError(f"the page needs the headings {PROMISED!r} and {NOT_PROMISED!r}")
    first_draft = re.search(r"^- \*\*", drafts, re.MULTILINE)
    cut = first_draft.start() if first_draft else len(drafts)
    return Page(
        opening=opening.strip(),
        promises=tuple(_promises(promised)),
        apology=drafts[:cut].strip(),
        drafts=tuple(_draft(match) for match in DRAFT.finditer(drafts[cut:])),
    )


def render(page: Page) -> str:
    """Writes the page in its one form."""
    promises = [_promise_text(promise) for promise in page.promises]
    drafts = [f"- **{d.rule}**{_race(d.race)} {d.sentence}" for d in page.drafts]
    parts = [page.opening, PROMISED, *promises, NOT_PROMISED, page.apology, "\n".join(drafts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def with_proofs(page: Page, proofs: Mapping[str, Sequence[str]], order: Sequence[str]) -> Page:
    """The page with the tests that carry each rule's marker.

    A rule that has tests and was not promised moves up with the sentence it had; what keeps it is
    for a person to name. A promise that lost its tests stays, and is a fault to be seen.
    """
    moved = [
        Promise(rule=d.rule, race=d.race, sentence=d.sentence, mechanism=UNNAMED, proofs=())
        for d in page.drafts
        if proofs.get(d.rule)
    ]
    promises = [
        replace(promise, proofs=tuple(proofs.get(promise.rule, ())))
        for promise in (*page.promises, *moved)
    ]
    kept = [draft for draft in page.drafts if not proofs.get(draft.rule)]
    return replace(
        page,
        promises=tuple(sorted(promises, key=lambda promise: order.index(promise.rule))),
        drafts=tuple(sorted(kept, key=lambda draft: order.index(draft.rule))),
    )


def _promises(text: str) -> list[Promise]:
    heads = list(PROMISE_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]]
    return [
        _promise(head, text[head.end() : end].strip())
        for head, end in zip(heads, [*ends, None], strict=False)
    ]


def _promise(head: re.Match[str], body: str) -> Promise:
    sentence, found, rest = body.partition("\n\nMechanism: ")
    mechanism, found_too, proofs = (rest + "\n").partition("\n\nProof:\n")
    if not found or not found_too:
        raise MalformedPageError(f"{head['rule']} needs a sentence, 'Mechanism: …' and 'Proof:'")
    return Promise(
        rule=head["rule"],
        race=head["race"] is not None,
        sentence=sentence,
        mechanism=mechanism,
        proofs=tuple(match["test"] for match in PROOF.finditer(proofs)),
    )


def _draft(match: re.Match[str]) -> Draft:
    return Draft(
        rule=match["rule"], race=match["race"] is not None, sentence=match["sentence"].strip()
    )


def _promise_text(promise: Promise) -> str:
    head = f"### {promise.rule}{_race(promise.race)}"
    proofs = "\n".join(["Proof:", *(f"- `{test}`" for test in promise.proofs)])
    return "\n\n".join([head, promise.sentence, f"Mechanism: {promise.mechanism}", proofs])


def _race(race: bool) -> str:  # noqa: FBT001 - the only argument
    return " (race)" if race else ""
