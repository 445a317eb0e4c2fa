"""Hidden logs that Spark's tasks write to, and their publication."""
