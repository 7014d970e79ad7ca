"""Expand: the tables of the first path, from a delivery to its publication."""

from alembic import op

from shared.schema.migrations import NeverDowngradeError, statements

revision = "0001"
down_revision = None

SUBJECTS = (
    "meta",
    "access",
    "endpoints",
    "connections",
    "intake",
    "work",
    "checkpoints",
    "publications",
)


def upgrade() -> None:
    """Makes every table."""
    for statement in statements(__file__, *SUBJECTS):
        op.execute(statement)


def downgrade() -> None:
    """Refuses."""
    raise NeverDowngradeError
