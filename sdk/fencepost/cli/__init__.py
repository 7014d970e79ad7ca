"""The command line: how the suite is, what happened to a piece of work, and who may call."""
