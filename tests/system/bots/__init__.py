"""Bots that do one thing wrong, each in its own module, and one that waits to be let go."""
