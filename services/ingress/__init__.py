"""Takes deliveries in once: from forges over HTTP, from trusted callers over gRPC."""
