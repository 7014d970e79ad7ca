"""Client side of the Fencepost suite: contracts, typed errors, channel, worker and command line."""

__version__ = "0.1.0"
