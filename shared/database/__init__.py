"""PostgreSQL for the services: statements compiled once, transactions that surely end."""

from shared.database.database import Database, Work
from shared.database.faults import ROW_REFUSED, RowLocked
from shared.database.rows import by_column
from shared.database.statements import Statement, statement
from shared.database.transactions import Transaction

__all__ = [
    "ROW_REFUSED",
    "Database",
    "RowLocked",
    "Statement",
    "Transaction",
    "Work",
    "by_column",
    "statement",
]
