"""Paths made of names that people chose."""

from urllib.parse import quote


def repo_path(repo_name: str) -> str | None:
    """The path of owner/name, each part encoded once. None: the name would lead elsewhere."""
    segments = repo_name.split("/")
    if len(segments) != 2 or any(segment in ("", ".", "..") for segment in segments):
        return None
    return "/repos/" + "/".join(quote(segment, safe="") for segment in segments)
