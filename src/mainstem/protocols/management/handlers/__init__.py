"""What answers: one file for each family of paths."""
