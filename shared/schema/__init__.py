"""The one schema all services share: tables, states, grants and migrations."""
