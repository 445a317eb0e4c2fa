"""One connection of the binary protocol."""
