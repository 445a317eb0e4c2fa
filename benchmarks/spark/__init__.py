"""Spark over topics, beside what Spark does without us."""
