"""The second half: a queue of RabbitMQ's clients, enriched by Spark in queue mode, with rejects among the dead letters."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from typing import Any

from pyspark.sql import SparkSession

from examples.enrich_queue import enrich, publish

ORDERS = 400


def run_queue(spark: SparkSession, at: dict[str, str], checkpoint: str) -> bool:
    """Whether each order came out once, as an invoice or as a dead letter."""
    publish.publish(f"amqp://guest:guest@{at['amqp']}/", ORDERS)
    print(f"\n{ORDERS} orders were published to the queue `orders` through pika; Spark takes them from there.")
    enrich.run(spark, at["kafka"], checkpoint)
    invoices = spark.read.format("mainstem").options(address=at["kafka"], topic="invoices").load()
    invoiced = Counter(int(row.key) for row in invoices.select("key").collect())
    letters = dead_letters(at["http"])
    for error, count in sorted(Counter(letters.values()).items()):
        print(f"  {count:>4} dead letters: {error}")
    print(f"  {len(invoiced):>4} invoices in the topic `invoices`")
    return invoiced + Counter(letters.keys()) == Counter(range(ORDERS))


def dead_letters(address: str) -> dict[int, str]:
    """What each of them was rejected for."""
    found: dict[int, str] = {}
    path: str | None = "/v1/queues/orders.dead/messages?limit=1000"
    while path is not None:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            page: dict[str, Any] = json.load(answer)
        for message in page["messages"]:
            found[json.loads(message["value"])["id"]] = message["origin"]["error"]
        path = page.get("next")
    return found
