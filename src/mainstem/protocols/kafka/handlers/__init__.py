"""What each request does: one module per family of APIs."""
