"""Tests of what the containers need around the services."""
