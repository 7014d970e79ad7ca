"""The line of migrations: what a database has, what it lacks, and running what it lacks."""

import io
from dataclasses import dataclass

from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

from shared.schema.migrations import FOLDER


@dataclass(frozen=True, slots=True)
class Step:
    """One migration; the title begins with Expand or Contract."""

    revision: int
    title: str

    def __str__(self) -> str:
        return f"{self.revision:04d} {self.title}"


def steps_after(revision: int) -> tuple[Step, ...]:
    """The migrations that a database at this revision lacks, oldest first; all of them after 0."""
    base = _identifier(revision) or "base"
    newest_first = ScriptDirectory.from_config(_config()).iterate_revisions("heads", base)
    return tuple(_step(script) for script in reversed(list(newest_first)))


def upgrade(connection: Connection) -> None:
    """Runs what is lacking inside the connection's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def upgrade_script(revision: int) -> str:
    """The same as SQL text, for a database at this revision."""
    config = _config()
    config.attributes["output"] = io.StringIO()
    start = f"{_identifier(revision)}:" if revision else ""
    command.upgrade(config, f"{start}head", sql=True)
    return str(config.attributes["output"].getvalue()).strip()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("path_separator", "os")
    return config


def _identifier(revision: int) -> str:
    return f"{revision:04d}" if revision else ""


def _step(script: Script) -> Step:
    return Step(int(script.revision), script.doc)
