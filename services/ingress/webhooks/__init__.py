"""The HTTP door: one small module per forge, one table of answers."""
