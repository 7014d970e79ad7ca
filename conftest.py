"""Plugins of the whole test run."""

pytest_plugins = ("tools.guarantees.plugin",)
