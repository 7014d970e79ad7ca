"""Others who do the same work, each in an environment of its own, and what they enqueue with."""
