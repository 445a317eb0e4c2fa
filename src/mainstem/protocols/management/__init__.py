"""The part of RabbitMQ's management API that clients and tools call."""
