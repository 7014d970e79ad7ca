"""API keys: made, succeeded, ended and listed."""
