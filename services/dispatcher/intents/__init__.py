"""Units of work: enqueue and read."""
