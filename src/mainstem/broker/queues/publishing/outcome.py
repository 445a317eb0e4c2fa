"""What happens to a message that a client publishes to queues."""

TAKEN, REFUSED, HOLD = 0, 1, 2
"""Taken; refused by a full queue; taken, but the publisher must wait before it publishes more."""
