"""Expand: accounts that an endpoint trusts, and the merge groups that are known."""

from alembic import op

from shared.schema.migrations import NeverDowngradeError, statements

revision = "0002"
down_revision = "0001"

SUBJECTS = ("endpoints", "intake")


def upgrade() -> None:
    """Adds a column that old code leaves empty, and a table that it leaves alone."""
    for statement in statements(__file__, *SUBJECTS):
        op.execute(statement)


def downgrade() -> None:
    """Refuses."""
    raise NeverDowngradeError
