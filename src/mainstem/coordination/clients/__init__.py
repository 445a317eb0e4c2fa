"""Limits of clients."""
