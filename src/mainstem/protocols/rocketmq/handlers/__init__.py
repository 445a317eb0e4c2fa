"""What requests do to the broker."""
