"""The Kafka port, beside a bare prototype of a broker that does only the hot path."""
