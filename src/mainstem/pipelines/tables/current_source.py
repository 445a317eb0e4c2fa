"""`option("history", "current")`: a topic as it is whenever the frame is read, for the table's side of a join with a stream.

Spark asks a source in Python once which parts it has, and reads the same parts in every micro-batch of a query. So a part here is
no range: it names partitions, and its task finds out what they hold at that moment. A partition is read by one task, by one
manifest: whatever the table's writer does meanwhile, each row is there once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from mainstem.pipelines.errors import plain_errors
from mainstem.pipelines.source.offset_range import OffsetRange
from mainstem.pipelines.tables.facts import TableFacts, table_facts
from mainstem.pipelines.tables.history_source import BATCH_ROWS, HistoryReader, has_raw_values
from mainstem.pipelines.tables.manifest import Manifest
from mainstem.pipelines.tables.reading import pinned_manifest, tail_starts
from mainstem.pipelines.tables.store import TableStore
from mainstem.sdk.operations import EARLIEST, LATEST

PARTITION = "partition"


class CurrentPart(InputPartition):
    """Some partitions of a topic: those whose number has this rest. So those that are added later are read, too."""

    def __init__(self, topic: str, rest: int, parts: int) -> None:
        self.topic = topic
        self.rest = rest
        self.parts = parts


class CurrentReader(HistoryReader):
    """Finds out what there is when it is read."""

    def partitions(self) -> Sequence[InputPartition]:
        """As many as there are partitions now."""
        options = self._scan.options
        with plain_errors(), options.client() as client:
            wanted = options.partitions(client)
        counts = {topic: sum(at.topic == topic for at in wanted) for topic in {at.topic for at in wanted}}
        parts = [CurrentPart(topic, rest, count) for topic, count in counts.items() for rest in range(count)]
        return parts or [OffsetRange("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task, on an executor."""
        if not isinstance(partition, CurrentPart):
            return
        options = self._scan.options
        with plain_errors(), options.client() as client:
            facts = table_facts(client, partition.topic)
            manifest = pinned_manifest(client, facts)
            mine = [at for at in facts.partitions if at.partition % partition.parts == partition.rest]
            kept = client.offsets(dict.fromkeys(mine, EARLIEST))
            ends = client.offsets(dict.fromkeys(mine, LATEST))
            starts = kept
            if manifest is not None:
                self._check_values(facts, manifest)
                starts = tail_starts(mine, manifest, kept, ends, options.is_loss_an_error)
                yield from self._rows(facts, manifest, [at.partition for at in mine])
        for at in (one for one in mine if starts[one] < ends[one]):
            yield from self._scan.read(OffsetRange(at.topic, at.partition, starts[at], ends[at]))

    def _rows(self, facts: TableFacts, manifest: Manifest, mine: Sequence[int]) -> Iterator[pa.RecordBatch]:
        wanted = {*self._scan.schema.fieldNames(), "value", PARTITION}
        store, is_raw, numbers = TableStore(facts.location), has_raw_values(manifest.schema), pa.array(mine, pa.int32())
        for file in manifest.files:
            with store.read_data(file.path) as stream:
                parquet = pq.ParquetFile(stream)
                names = [name for name in parquet.schema_arrow.names if name in wanted]
                groups = [group for group in range(parquet.num_row_groups) if _may_hold(parquet, group, mine)]
                for batch in parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=names):
                    rows = batch.filter(pc.is_in(batch.column(PARTITION), numbers))
                    if rows.num_rows:
                        yield self._shaped(rows, facts.topic, is_raw)


def _may_hold(parquet: pq.ParquetFile, group: int, mine: Sequence[int]) -> bool:
    """By what the file says of its row group: until files are merged, a group is of one partition."""
    for index in range(parquet.metadata.num_columns):
        column = parquet.metadata.row_group(group).column(index)
        if column.path_in_schema == PARTITION:
            statistics = column.statistics
            return (
                statistics is None
                or not statistics.has_min_max
                or any(statistics.min <= number <= statistics.max for number in mine)
            )
    return True
