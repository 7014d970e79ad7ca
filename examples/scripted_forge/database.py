"""The SQLite file the forge's whole memory stands in."""

import sqlite3
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS repo (
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL COLLATE NOCASE, name TEXT NOT NULL COLLATE NOCASE,
    created_at TEXT NOT NULL, UNIQUE (owner, name)
);
CREATE TABLE IF NOT EXISTS pull (
    repo_id INTEGER NOT NULL REFERENCES repo, number INTEGER NOT NULL, title TEXT NOT NULL,
    state TEXT NOT NULL, author TEXT NOT NULL, head_ref TEXT NOT NULL, head_sha TEXT NOT NULL,
    base_ref TEXT NOT NULL, base_sha TEXT NOT NULL, draft INTEGER NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, PRIMARY KEY (repo_id, number)
);
CREATE TABLE IF NOT EXISTS pull_commit (
    repo_id INTEGER NOT NULL, number INTEGER NOT NULL, sha TEXT NOT NULL,
    PRIMARY KEY (repo_id, number, sha), FOREIGN KEY (repo_id, number) REFERENCES pull
);
CREATE TABLE IF NOT EXISTS review (
    id INTEGER PRIMARY KEY, repo_id INTEGER NOT NULL, number INTEGER NOT NULL,
    state TEXT NOT NULL, body TEXT NOT NULL, commit_id TEXT NOT NULL, comments TEXT NOT NULL,
    submitted_at TEXT NOT NULL, FOREIGN KEY (repo_id, number) REFERENCES pull
);
CREATE TABLE IF NOT EXISTS issue_comment (
    id INTEGER PRIMARY KEY, repo_id INTEGER NOT NULL, number INTEGER NOT NULL,
    body TEXT NOT NULL, created_at TEXT NOT NULL, FOREIGN KEY (repo_id, number) REFERENCES pull
);
CREATE TABLE IF NOT EXISTS request (
    number INTEGER PRIMARY KEY, received_at TEXT NOT NULL, method TEXT NOT NULL,
    raw_path TEXT NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL,
    answered_status INTEGER, fault TEXT
);
CREATE TABLE IF NOT EXISTS fault (
    number INTEGER PRIMARY KEY, method TEXT NOT NULL, path_regex TEXT NOT NULL,
    kind TEXT NOT NULL, status INTEGER NOT NULL, headers TEXT NOT NULL, body TEXT,
    delay_ms INTEGER NOT NULL, remaining INTEGER NOT NULL
);
"""


class FolderInUseError(Exception):
    """Another scripted forge holds this folder."""


def open_database(folder: Path) -> sqlite3.Connection:
    """Opens (or makes) the forge's file; each statement commits, on disk, before it returns.

    Raises FolderInUseError while another process has it open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / "forge.sqlite3", timeout=0, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        # Held for the process's life: two forges on one folder would be two truths.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.executescript(SCHEMA)
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" not in str(error):
            raise
        raise FolderInUseError(f"{folder} is in use by another scripted forge") from error
    return connection
