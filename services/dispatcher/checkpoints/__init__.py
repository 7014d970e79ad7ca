"""Durable state of runs."""
