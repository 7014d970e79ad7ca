"""Declared queues: rules of their own for the work that waits on them."""
