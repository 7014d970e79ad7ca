"""The watchdog: who may call, how the suite is, and what happened."""
