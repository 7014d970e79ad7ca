"""The containers, tried on a real engine."""
