"""Topics, administered."""
