"""What is in a data directory, row by row."""
