"""`make demo`: orders through a Kafka client, totals by Spark, into a topic and into Parquet; then orders through a queue.

Ends by itself.

Everything is as a user would write it; only the broker is started here, on free ports, in a directory that goes away.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import mainstem.spark
from demo.broker import running_broker
from demo.queue import run_queue

ORDERS = 50_000
COUNTRIES = ("de", "fr", "jp", "us")
ORDERS_PER_TRIGGER = 20_000
LAG_PATIENCE_S = 10


def send_orders(address: str) -> None:
    """As any application would: nothing here knows what the broker is."""
    producer = Producer({"bootstrap.servers": address, "compression.type": "lz4"})
    chance = random.Random(1)
    for number in range(ORDERS):
        order = {"id": number, "country": chance.choice(COUNTRIES), "amount": chance.randint(1, 500)}
        producer.produce("orders", json.dumps(order).encode(), key=order["country"].encode())
        producer.poll(0)
    assert producer.flush(30) == 0


def run_totals(spark: SparkSession, address: str, parquet: str) -> None:
    """Totals per country, kept by Spark over micro-batches; each micro-batch writes what it changed, exactly once."""
    orders = (
        spark.readStream.format("mainstem")
        .option("address", address)
        .option("topic", "orders")
        .option("startingOffsets", "earliest")
        .option("group", "totals")
        .option("maxRowsPerTrigger", ORDERS_PER_TRIGGER)
        .option("value.format", "json")
        .option("value.schema", "id BIGINT, country STRING, amount BIGINT")
        .load()
    )
    totals = orders.groupBy("value.country").agg(F.count("*").alias("orders"), F.sum("value.amount").alias("amount"))

    def write(changed: DataFrame, number: int) -> None:
        changed = changed.persist()
        rows = changed.selectExpr("country AS key", "to_json(struct(*)) AS value")
        rows.write.format("mainstem").mode("append").options(address=address, topic="totals", sinkId="totals").save()
        changed.withColumn("batch", F.lit(number)).write.mode("overwrite").parquet(f"{parquet}/batch-{number:06d}")
        changed.unpersist()

    query = totals.writeStream.queryName("totals").outputMode("update").foreachBatch(write).trigger(availableNow=True)
    query.start().awaitTermination()


def latest(rows: DataFrame, order: str) -> list[tuple[str, int, int]]:
    """The newest total of each country."""
    newest = rows.groupBy("country").agg(F.max_by("orders", order), F.max_by("amount", order))
    return sorted(tuple(row) for row in newest.collect())


def wait_lag(address: str, group: str) -> int:
    """The group's lag in messages; Spark tells its listeners of the last micro-batch a moment after it."""
    deadline = time.monotonic() + LAG_PATIENCE_S
    while True:
        with urllib.request.urlopen(f"http://{address}/v1/groups/{group}", timeout=10) as answer:
            lag: int = json.load(answer)["lag_messages"]
        if lag == 0 or time.monotonic() > deadline:
            return lag
        time.sleep(0.1)


def show(title: str, totals: list[tuple[str, int, int]]) -> None:
    print(f"\n{title}\n  country   orders     amount")
    for country, orders, amount in totals:
        print(f"  {country:<8}{orders:>8}{amount:>11}")


def main() -> int:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mainstem-demo-") as directory, running_broker(Path(directory)) as at:
        print(f"A broker serves Kafka at {at['kafka']} and HTTP at {at['http']}.")
        send_orders(at["kafka"])
        print(f"{ORDERS:,} orders were sent through a Kafka client.")
        spark = mainstem.spark.session("demo", data_dir=directory)
        print("Spark is up; a streaming query adds them up.")
        run_totals(spark, at["kafka"], f"{directory}/totals.parquet")
        options = {
            "address": at["kafka"],
            "topic": "totals",
            "value.format": "json",
            "value.schema": "country STRING, orders BIGINT, amount BIGINT",
        }
        topic = latest(spark.read.format("mainstem").options(**options).load().select("offset", "value.*"), "offset")
        parquet = latest(spark.read.parquet(f"{directory}/totals.parquet/*"), "batch")
        show("Topic `totals`", topic)
        show("Parquet", parquet)
        lag = wait_lag(at["http"], "totals")
        print(f"\nThe query is group `totals`, with a lag of {lag} messages.")
        is_settled = run_queue(spark, at, f"{directory}/invoices")
        spark.stop()
    is_right = is_settled and topic == parquet and sum(orders for _, orders, _ in topic) == ORDERS and lag == 0
    print(f"{'All is as it should be' if is_right else 'This is NOT right'}, after {time.monotonic() - begun:.0f} s.")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
