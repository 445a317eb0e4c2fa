"""Seeded histories over a storage engine, on a disk that forgets unsynced writes, checked against a simple model."""
