"""Bytes and values: varints, compression, the v2 record batch and Kafka's messages.

Pure: no clock, no socket, no thread.
"""
