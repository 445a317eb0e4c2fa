"""Orders from a queue become invoices in a topic; those that cannot are rejected with a reason.

python examples/enrich_queue/enrich.py [--address HOST:PORT] [--forever]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import mainstem.spark

CUSTOMERS = Path(__file__).with_name("customers.json")
ORDER = "id BIGINT, customer BIGINT, amount DOUBLE"


def invoices(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Rows for the sink: an invoice each, or a verdict."""
    joined = orders.selectExpr("_receipt", "value.*", "_corrupt").join(customers, "customer", "left")
    return joined.selectExpr(
        "_receipt",
        "CAST(id AS STRING) AS key",
        "to_json(struct(id, name, country, amount, round(amount * (1 + vat), 2) AS gross)) AS value",
        "IF(name IS NULL OR amount IS NULL, 'reject', NULL) AS _verdict",
        """CASE WHEN _corrupt IS NOT NULL OR id IS NULL THEN 'not an order'
                WHEN amount IS NULL THEN 'no amount'
                WHEN name IS NULL THEN concat('unknown customer ', customer) END AS _reason""",
    )


def run(spark: SparkSession, address: str, checkpoint: str | None = None, *, forever: bool = False) -> None:
    """Until the queue is empty, or for ever."""
    orders = (
        spark.readStream.format("mainstem")
        .options(address=address, subscription="orders", maxRowsPerTrigger=5_000)
        .option("value.format", "json")
        .option("value.schema", ORDER)
        .load()
    )
    rows = invoices(orders, spark.read.json(str(CUSTOMERS)))
    writer = rows.writeStream.format("mainstem").options(address=address, topic="invoices").queryName("invoices")
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(**({"processingTime": "1 second"} if forever else {"availableNow": True})).start().awaitTermination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="127.0.0.1:9092", help="the broker's Kafka listener")
    parser.add_argument("--forever", action="store_true")
    given = parser.parse_args()
    run(mainstem.spark.session("enrich-queue"), given.address, forever=given.forever)
