"""Groups and their lag."""
