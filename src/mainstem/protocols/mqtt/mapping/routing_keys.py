"""Topics in levels as RabbitMQ translates them into routing keys: permissions are checked for those."""

_TO_AMQP = str.maketrans({"/": ".", ".": "/", "+": "*"})


def routing_key_of(text: str) -> str:
    """Of a name or a filter."""
    return text.translate(_TO_AMQP)
