"""What containers need around the services: health, secrets, settings of other programs."""
