"""The forms in which people paste the address of a change request."""

import pytest

from services.watchdog.timeline.subject_rules import url_forms

GITHUB = "github.com/octo-org/widgets/pull/7"


@pytest.mark.parametrize(
    ("pasted", "stored"),
    [
        (f"https://{GITHUB}", GITHUB),
        (f"http://{GITHUB}", GITHUB),
        ("HTTPS://GitHub.com/octo-org/widgets/pull/7", GITHUB),
        (f" https://{GITHUB}/ ", GITHUB),
        (f"https://{GITHUB}//", GITHUB),
        (f"https://{GITHUB}/files", GITHUB),
        (f"https://{GITHUB}/files/6dcb09b..ecdd80b#diff-1", GITHUB),
        (f"https://{GITHUB}/commits/6dcb09b", GITHUB),
        (f"https://{GITHUB}/checks?check_run_id=4", GITHUB),
        (f"https://{GITHUB}?w=1", GITHUB),
        (f"https://{GITHUB}#issuecomment-1", GITHUB),
        (f"https://{GITHUB}.diff", GITHUB),
        (f"https://user:token@{GITHUB}", GITHUB),
        ("https://github.com:443/octo-org/widgets/pull/7", GITHUB),
        (
            "https://forge.example:8443/team/app/pulls/12/files",
            "forge.example:8443/team/app/pulls/12",
        ),
        ("http://[::1]:7120/a/b/pull/1", "[::1]:7120/a/b/pull/1"),
        (
            "https://gitlab.example/g/sub/app/-/merge_requests/3/diffs",
            "gitlab.example/g/sub/app/-/merge_requests/3",
        ),
        ("https://host/pull/1/pull/2/files", "host/pull/1/pull/2"),
        ("https://host/some/page/", "host/some/page"),
    ],
)
def test_a_pasted_address_is_understood(pasted: str, stored: str) -> None:
    assert url_forms(pasted) == (f"https://{stored}", f"http://{stored}")


@pytest.mark.parametrize(
    "text", ["", "octo-org/widgets#7", "ssh://host/x", "https://", "https://h:port/x", "//h/x"]
)
def test_what_is_no_web_address_has_no_form(text: str) -> None:
    assert url_forms(text) == ()
