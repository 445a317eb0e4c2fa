"""A query is a group with lag, beside every other consumer.

Spark tells a source only late, or never, how far its query has come, so it is told from several places; each stores the same
offsets, and the last one wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition

Offsets = Mapping[str, Mapping[str, int]]
"""Topic, partition as text, next offset: what a streaming source gives Spark, and Spark writes into its checkpoint."""


def report_progress(client: Client, group: str, offsets: Offsets | str) -> None:
    """Stores the offsets as those of the group; the text is JSON, as in Spark's progress."""
    read: Offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
    client.commit(
        group,
        {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in read.items()
            for partition, offset in partitions.items()
        },
    )
