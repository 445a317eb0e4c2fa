"""A real broker under load from real Kafka clients, killed again and again on the same data and port."""
