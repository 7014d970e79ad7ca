"""Figures, each observed or unobservable with its reason."""
