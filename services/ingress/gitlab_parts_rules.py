"""Parts of bodies that GitLab's events have in common."""

from services.ingress.fields_rules import Fields
from services.ingress.reading_rules import ACTION_CHARACTERS_MAX, Projection, leaf, projected

CLOSED_STATES = ("closed", "merged")
"""Of a merge request that is done; one that is locked is about to be merged, and open till then."""


def about(body: Fields) -> Projection:
    """What people look for in every event, where it is there; pushes name their sender apart."""
    user = leaf(lambda: body.optional_object("user")) or Fields({})
    name = leaf(lambda: user.optional_text("username"))
    number = leaf(lambda: user.optional_number("id"))
    return projected(
        {
            "repo_id": leaf(lambda: body.object("project").number("id")),
            "repo_name": leaf(lambda: body.object("project").optional_text("path_with_namespace")),
            "sender": name or leaf(lambda: body.optional_text("user_username")),
            "sender_id": number or leaf(lambda: body.optional_number("user_id")),
        }
    )


def action_of(body: Fields) -> str:
    """The action of an event, where it has one."""
    action = leaf(
        lambda: body.object("object_attributes").optional_text("action", ACTION_CHARACTERS_MAX)
    )
    return action or ""


def is_closed(merge: Fields) -> bool:
    """Whether a merge request is done."""
    return merge.optional_text("state") in CLOSED_STATES
