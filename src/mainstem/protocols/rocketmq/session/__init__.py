"""State machines of connections."""
