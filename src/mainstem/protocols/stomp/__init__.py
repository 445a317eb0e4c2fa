"""STOMP 1.0, 1.1 and 1.2, as RabbitMQ's plug-in speaks it."""
