"""Who clients are, how they prove it, and what they may do: one store for all protocols."""
