"""Tests that need a container engine: `make containers` runs them, `make test` does not."""
