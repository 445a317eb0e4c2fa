"""Dead letters: the facts that each carries, and redrives as they are stored. Pure."""
