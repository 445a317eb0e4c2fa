"""What Spark's queries and workers ask."""
