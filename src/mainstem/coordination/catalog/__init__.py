"""Topics and their configuration, and the broker's own."""
