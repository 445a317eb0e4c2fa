"""What frames do to the broker."""
