"""Streams groups (KIP-1071): the broker knows the topology of an application and assigns its tasks."""
