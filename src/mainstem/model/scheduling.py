"""Times at which something can be due."""

DUE_MS_MAX = (1 << 53) - 1
"""Some 285,000 years; what JSON's readers keep exactly."""
