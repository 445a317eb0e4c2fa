"""The documents of the registry, and what they say."""
