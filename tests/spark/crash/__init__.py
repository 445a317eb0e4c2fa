"""A query that writes to a topic, killed again and again: each of its rows must come out once."""
