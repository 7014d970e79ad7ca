"""Identity of work: the canonical text that rows and fences carry, and the label people read."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Key:
    """A change request at one head, or one manual command on it (I6)."""

    forge_instance: str
    repo_id: int
    number: int
    head_sha: str
    suffix: str = ""

    def canonical(self) -> str:
        """The text under which rows are found: names no repository, so a rename keeps it."""
        return f"{self.forge_instance}/{self.repo_id}#{self.number}@{self.head_sha}{self._tail()}"

    def label(self, repo_name: str) -> str:
        """owner/repo#number@headSha[:suffix], as it is shown."""
        return f"{repo_name}#{self.number}@{self.head_sha}{self._tail()}"

    def _tail(self) -> str:
        return f":{self.suffix}" if self.suffix else ""


def intent_key(intent_id: int) -> str:
    """Key of a message without one: the intent is its own identity (Q2)."""
    return f"intent:{intent_id}"
