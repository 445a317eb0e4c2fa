"""Publishes orders, as any RabbitMQ client would: python examples/enrich_queue/publish.py [COUNT] [--amqp URL]."""

from __future__ import annotations

import argparse
import json

import pika

QUEUE, DEAD = "orders", "orders.dead"
KNOWN_CUSTOMERS = 7
"""Of eight: the last is in nobody's table."""
NO_AMOUNT_EVERY = 10


def order(number: int) -> dict[str, object]:
    """One of them; some cannot be invoiced."""
    wanted: dict[str, object] = {"id": number, "customer": number % (KNOWN_CUSTOMERS + 1), "amount": number % 90 + 10}
    if number % NO_AMOUNT_EVERY == 0:
        del wanted["amount"]
    return wanted


def publish(url: str, count: int) -> None:
    """Each confirmed by the broker."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(DEAD, durable=True)
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
        channel.queue_declare(QUEUE, durable=True, arguments=dead_letters)
        channel.confirm_delivery()
        lasting = pika.BasicProperties(delivery_mode=2, content_type="application/json")
        for number in range(count):
            channel.basic_publish("", QUEUE, json.dumps(order(number)).encode(), lasting)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int, nargs="?", default=1_000)
    parser.add_argument("--amqp", default="amqp://guest:guest@127.0.0.1:5672/")
    given = parser.parse_args()
    publish(given.amqp, given.count)
    print(f"{given.count} orders are in the queue {QUEUE!r}.")
