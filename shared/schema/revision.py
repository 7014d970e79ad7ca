"""Which schema this code was written for, and how far back code may still run on it (X3)."""

SCHEMA_REVISION = 3
"""Revision that this code was written for; the newest migration carries the same number."""

OLDEST_CODE = 1
"""Oldest SCHEMA_REVISION that may still run on the newest schema; raised by contract steps."""
