"""Hidden logs of Spark's sinks: what is open, and what was published."""
