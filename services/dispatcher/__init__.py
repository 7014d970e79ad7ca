"""Queues, leases with fencing, and checkpoints."""
