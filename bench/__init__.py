"""Measurements; nothing here runs in production."""
