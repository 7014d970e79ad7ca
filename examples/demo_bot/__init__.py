"""The bot of the README, run with `python -m examples.demo_bot`."""
