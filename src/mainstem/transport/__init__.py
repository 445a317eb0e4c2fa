"""Sockets: listeners, connections, limits and back-pressure. Knows no protocol by name."""
