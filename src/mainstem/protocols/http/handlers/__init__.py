"""What each path does."""
