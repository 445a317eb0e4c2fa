"""Spark: every topic a source and a sink, batch and streaming.

The only folder that knows pyspark. Its code runs on the driver and, shipped there if need be, on executors; so it leans
on `sdk`, `wire` and `model` alone.
"""
