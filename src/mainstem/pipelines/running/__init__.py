"""A definition on Spark: frames from sources and steps, queries from sinks, and how they are getting on."""
