"""Whether PostgreSQL's client library can read a connection URL, said without quoting any of it."""

import psycopg
from psycopg.conninfo import conninfo_to_dict

UNREADABLE = (
    "cannot be read as a connection URL: write what is special in the password percent-encoded "
    "(a space is %20, a percent sign %25), and after the question mark only PostgreSQL's own names"
)


def fault_in(url: str) -> str:
    """What is wrong with the URL; empty when nothing is. What libpq says would quote a password."""
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return UNREADABLE
    return ""
