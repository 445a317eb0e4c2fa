"""Clicks through a Kafka client, as any application would send them: `python examples/clickstream/send.py [HOST:PORT]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

BEGIN = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
VISITS = (
    # user, minutes after the beginning, pages
    ("ann", 0, ("home", "shoes", "cart")),
    ("bob", 1, ("home",)),
    ("ann", 20, ("home", "help")),
    # an hour later somebody comes by: what was before is over
    ("eve", 80, ("home",)),
)
UNREADABLE = (b"not json", b'{"page": "home"}')


def clicks() -> Iterator[bytes]:
    """A click every twenty seconds of a visit."""
    for user, minutes, pages in VISITS:
        for number, page in enumerate(pages):
            at = BEGIN + timedelta(minutes=minutes, seconds=20 * number)
            yield json.dumps({"user": user, "page": page, "at": at.isoformat()}).encode()


def send(address: str) -> int:
    """All of them, and two that nobody can read; answers how many."""
    producer = Producer({"bootstrap.servers": address})
    values = [*clicks(), *UNREADABLE]
    for value in values:
        producer.produce("clicks", value)
    assert producer.flush(30) == 0
    return len(values)


if __name__ == "__main__":
    sent = send(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
    print(f"{sent} clicks were sent.")
