"""Orders and payments through Kafka clients: `python examples/orders_and_payments/send.py [HOST:PORT]`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

BEGIN = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
ORDERS = ((1, 0, "10.00"), (2, 1, "20.00"), (2, 1, "20.00"), (3, 2, "30.00"), (4, 3, "40.00"))
"""Number, minute, amount; the second one is sent twice."""
PAYMENTS = ((3, 30, "30.00"), (1, 25, "10.00"), (4, 35, "39.00"), (2, 90, "20.00"))
"""Of order 1 late, but not too late; of 4 not in full; of 2 after more than the hour that it had."""
LAST_MINUTE = 200
"""Somebody orders and pays much later: what was before is over."""


def send(address: str) -> None:
    """All of them."""
    producer = Producer({"bootstrap.servers": address})
    for number, minute, amount in (*ORDERS, (5, LAST_MINUTE, "50.00")):
        order = {"id": number, "customer": f"c{number}", "amount": amount, "at": _at(minute)}
        producer.produce("orders", json.dumps(order).encode(), str(number))
    for number, minute, amount in (*PAYMENTS, (5, LAST_MINUTE + 1, "50.00")):
        payment = {"order_id": number, "amount": amount, "at": _at(minute)}
        producer.produce("payments", json.dumps(payment).encode(), str(number))
    assert producer.flush(30) == 0


def _at(minute: int) -> str:
    return (BEGIN + timedelta(minutes=minute)).isoformat()


if __name__ == "__main__":
    send(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
    print("Orders and payments were sent.")
