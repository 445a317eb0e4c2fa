"""The Python client, blocking: one broker connection at a time, raw batches in and out.

Spark's executors and driver use it. Applications have the clients that they already know.
"""
