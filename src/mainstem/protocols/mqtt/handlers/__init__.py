"""Call the broker."""
