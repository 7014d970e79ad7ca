"""Merge groups: commits of a merge queue, and the end of what is done for one that is gone."""
