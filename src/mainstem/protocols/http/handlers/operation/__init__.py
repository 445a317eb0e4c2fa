"""What an operator asks: health, identity, measurements."""
