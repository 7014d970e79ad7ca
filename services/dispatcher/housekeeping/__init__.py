"""Background duties, one file each."""
