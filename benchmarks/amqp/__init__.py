"""AMQP, beside RabbitMQ on the same machine in the same run."""
