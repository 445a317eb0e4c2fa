"""What the paths of the registry do."""
