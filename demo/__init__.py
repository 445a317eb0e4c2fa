"""What it looks like when everything runs."""
