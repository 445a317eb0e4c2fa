"""Bytes <-> frames; pure."""
