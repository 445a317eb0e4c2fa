"""Dead letters: written, looked at, and sent back."""
