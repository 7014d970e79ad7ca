"""Which change request people mean by a URL: the forms in which one is pasted."""

import re
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}

# GitHub: /pull/7, Forgejo and Gitea: /pulls/7, GitLab: /-/merge_requests/7; what follows the
# number is a tab of the same page.
_PAGE = re.compile(r"(?P<page>/.+?/(?:pulls?|(?:-/)?merge_requests)/\d+)(?:[/.].*)?")


def url_forms(url: str) -> tuple[str, ...]:
    """The forms under which the change request may be stored; none if it is no web address.

    The scheme, the case of the host, a default port, credentials, query, fragment, slashes at the
    end and the tab of the page do not matter.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return ()
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname:
        return ()
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port in (None, _DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    found = _PAGE.fullmatch(parts.path)
    path = found["page"] if found else parts.path.rstrip("/")
    return (f"https://{place}{path}", f"http://{place}{path}")
