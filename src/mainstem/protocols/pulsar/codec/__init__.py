"""Bytes and values."""
