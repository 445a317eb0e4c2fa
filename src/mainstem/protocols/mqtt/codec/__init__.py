"""Control packets, bytes to values and back. Pure."""
