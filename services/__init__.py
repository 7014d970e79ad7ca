"""The four services and the launcher of the whole suite."""
