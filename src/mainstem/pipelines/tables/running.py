"""The pipeline that is built in: every topic with `table = true` is taken over into its table, by one driver for all of them."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from mainstem.model.errors import MainstemError
from mainstem.pipelines.errors import sentence_in
from mainstem.pipelines.tables.facts import table_facts, table_topics
from mainstem.pipelines.tables.housekeeping import Times
from mainstem.pipelines.tables.writer import TableWriter
from mainstem.sdk.client import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 5.0
"""How often it is asked which topics are tables."""
ORPHANS_S = 3_600.0

logger = logging.getLogger(__name__)


def run_table(spark: SparkSession, address: str, topic: str, times: Times | None = None) -> int:
    """Take over all that is there of one topic, put its table in order, and answer how many records came."""
    writer = TableWriter(spark, address, topic, times)
    records, is_behind = 0, True
    while is_behind:
        done = writer.take_over()
        records, is_behind = records + done.records, done.is_behind
    writer.tidy_table()
    return records


def run_tables(spark: SparkSession, address: str, stopped: threading.Event) -> None:
    """Until told to stop. What goes wrong with one topic is said, tried again later, and keeps no other from its turn."""
    due: dict[str, float] = {}
    orphans_due: dict[str, float] = {}
    writers: dict[str, TableWriter] = {}
    failing: dict[str, str] = {}
    while not stopped.is_set():
        now = time.monotonic()
        for topic in _wanted_topics(address):
            if stopped.is_set() or due.get(topic, now) > now:
                continue
            writer = writers.setdefault(topic, TableWriter(spark, address, topic))
            try:
                done = writer.take_over()
                writer.tidy_table()
                if orphans_due.get(topic, 0.0) <= now:
                    writer.collect_orphans()
                    orphans_due[topic] = now + ORPHANS_S
                if done.records:
                    logger.info("table %s: %d records taken over", topic, done.records)
                failing.pop(topic, None)
                due[topic] = now if done.is_behind else now + _interval_s(address, topic)
            except Exception as error:  # noqa: BLE001 - of Spark's errors no base is common
                sentence = str(error) if isinstance(error, MainstemError) else sentence_in(error)
                if failing.get(topic) != sentence:
                    logger.warning("table %s: %s", topic, sentence)
                failing[topic] = sentence
                due[topic] = now + LOOK_S
        stopped.wait(LOOK_S)


def _wanted_topics(address: str) -> list[str]:
    try:
        with Client(address, client_id="mainstem-table") as client:
            return table_topics(client)
    except MainstemError as error:
        logger.warning("the topics that are tables are not known: %s", error)
        return []


def _interval_s(address: str, topic: str) -> float:
    with Client(address, client_id="mainstem-table") as client:
        return table_facts(client, topic).interval_ms / 1_000
