"""The write-ahead log: groups of commits as they are written and read."""
