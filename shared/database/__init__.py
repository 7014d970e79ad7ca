"""PostgreSQL for the services: statements compiled once, transactions that surely end."""

from shared.database.database import Database
from shared.database.faults import RowLocked
from shared.database.statements import Statement, statement
from shared.database.transactions import Transaction

__all__ = ["Database", "RowLocked", "Statement", "Transaction", "statement"]
