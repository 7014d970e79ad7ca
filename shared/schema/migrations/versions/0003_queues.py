"""Expand: queues with rules of their own."""

from alembic import op

from shared.schema.migrations import NeverDowngradeError, statements

revision = "0003"
down_revision = "0002"

SUBJECTS = ("queues",)


def upgrade() -> None:
    """Adds a table that old code leaves alone."""
    for statement in statements(__file__, *SUBJECTS):
        op.execute(statement)


def downgrade() -> None:
    """Refuses."""
    raise NeverDowngradeError
