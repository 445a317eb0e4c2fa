"""Confluent's Schema Registry API over the store of schemas."""
