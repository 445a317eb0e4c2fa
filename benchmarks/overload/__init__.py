"""More than the broker can take: what it costs others, and whether anything that was taken is lost."""
