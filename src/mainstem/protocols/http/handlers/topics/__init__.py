"""Topics and namespaces."""
