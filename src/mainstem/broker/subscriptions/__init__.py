"""Logs read as queues: leases, reading, waiting."""
