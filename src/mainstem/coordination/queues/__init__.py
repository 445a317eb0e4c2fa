"""Queues on logs: what a queue promises, the messages in it, and the part of a log that it holds in memory. Pure."""
