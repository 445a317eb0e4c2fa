"""What one Kafka connection is: the order of its requests and responses, and what it may cost."""
