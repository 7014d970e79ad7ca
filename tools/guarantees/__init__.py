"""Keeps docs/GUARANTEES.md true: every promise has tests, every test its promise, every result is
of the code as it is.

`python -m tools.guarantees` tells each rule, its tests and their last result, and runs what is
missing or stale; `--write` refreshes the proofs in the page from the markers; `--static` only
compares page and markers.
"""
