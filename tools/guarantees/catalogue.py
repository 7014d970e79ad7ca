"""The ids of all rules: none can be dropped from the page unseen."""

SECTIONS = {
    "I": 14,
    "Q": 14,
    "L": 9,
    "C": 8,
    "P": 12,
    "K": 4,
    "W": 11,
    "R": 10,
    "X": 10,
}
BETWEEN = {"C6": "C6b", "P2": "P2b"}
# Proven only by a test that makes the rivals meet: both seen waiting on one lock, then released.
RACES = frozenset({"I1", "I13", "I14", "L1", "L3", "P2", "Q1", "Q3", "W1"})


def _listed() -> list[str]:
    numbered = [f"{letter}{n}" for letter, last in SECTIONS.items() for n in range(1, last + 1)]
    return [rule for one in numbered for rule in (one, BETWEEN.get(one)) if rule]


RULES = tuple(_listed())


def position(rule: str) -> int:
    """Where the rule stands in the page."""
    return RULES.index(rule)
