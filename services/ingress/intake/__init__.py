"""Intake, a step a file: markers, change requests, what is unwanted, intents, deliveries."""
