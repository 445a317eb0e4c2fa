"""Spark sessions: Java, our code on the workers, and the listener of queries."""
