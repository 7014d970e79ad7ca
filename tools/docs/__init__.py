"""Writes the pages that say what the code says, or tells whether they still do.

`python -m tools.docs` writes them; with `--check` it changes nothing and fails when one is stale.
"""
