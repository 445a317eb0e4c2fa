"""What one task reads: a stretch of offsets of one partition."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import InputPartition

from mainstem.sdk.operations import TopicPartition


class OffsetRange(InputPartition):
    """Offsets from `start` up to, not including, `end`."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start}, {self.end})"

    @property
    def at(self) -> TopicPartition:
        """Whose offsets they are."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Offsets, whether or not their records are still there."""
        return self.end - self.start


def split_ranges(ranges: Iterable[OffsetRange], partitions_min: int | None) -> list[OffsetRange]:
    """The ranges that are not empty; the larger ones are cut until there are as many parts as wanted.

    Each gets parts in proportion to its size, as even as whole offsets allow. A cut may go through a batch: both
    sides read it and drop what is not theirs.
    """
    filled = [one for one in ranges if one.size > 0]
    if partitions_min is None or len(filled) >= partitions_min:
        return filled
    total = sum(one.size for one in filled)
    parts: list[OffsetRange] = []
    for one in filled:
        count = min(max(round(one.size * partitions_min / total), 1), one.size)
        bounds = [one.start + one.size * index // count for index in range(count + 1)]
        parts += [
            OffsetRange(one.topic, one.partition, first, end) for first, end in zip(bounds, bounds[1:], strict=False)
        ]
    return parts
