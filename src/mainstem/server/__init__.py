"""Puts the broker together: settings, wiring, life cycle."""
