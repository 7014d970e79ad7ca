"""Forward-only migrations, one line of them; each is an expand or a contract step (X3)."""

from pathlib import Path

FOLDER = Path(__file__).parent


def statements(revision_file: str, *subjects: str) -> list[str]:
    """The SQL of a revision: a file per subject, in the folder named like the revision's file."""
    folder = Path(revision_file).with_suffix("")
    return [(folder / f"{subject}.sql").read_text().strip().rstrip(";") for subject in subjects]


class NeverDowngradeError(Exception):
    """Migrations go forward only: a wrong one is mended by the next."""

    def __init__(self) -> None:
        super().__init__(
            "Fencepost's schema is never downgraded: old code runs on a newer schema, "
            "and a wrong migration is mended by a new one."
        )
