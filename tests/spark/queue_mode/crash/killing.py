"""The source of queue mode with places at which it kills, beside those of the sink.

    acquired   the broker has stored an acquisition, and Spark does not know
    logged     Spark has logged it, and it is not pinned
    pinned     it is pinned, and nothing is read

A point of the source is numbered by how often it was reached.
"""

import os
from pathlib import Path

from mainstem.pipelines.data_source import DefaultSource
from mainstem.pipelines.queue_mode.stream import QueueStreamReader
from mainstem.pipelines.sink.sink import SinkOptions
from tests.support.crashing.spark.killing import PLAN, KillingWriter, reach

SOURCE_POINTS = ("acquired", "logged", "pinned")
FORMAT = "mainstem-queue-killed"


class KillingQueueSource(DefaultSource):
    """The data source, with the killing reader and the killing sink."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema):
        return KillingReader(self.options, schema)

    def streamWriter(self, schema, overwrite):
        return KillingWriter(SinkOptions(self.options, schema))


class KillingReader(QueueStreamReader):
    def latestOffset(self, start, limit):
        end = super().latestOffset(start, limit)
        if end != start:
            pass_by("acquired")
        return end

    def partitions(self, start, end):
        pass_by("logged")
        found = super().partitions(start, end)
        pass_by("pinned")
        return found


def pass_by(point: str) -> None:
    """Kill, if that is planned for this time; a driver that is killed does nothing more."""
    counter = Path(f"{os.environ[PLAN]}.{point}")
    number = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(number))
    if reach(point, number) == "driver":
        os._exit(1)
