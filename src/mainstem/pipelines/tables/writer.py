"""Takes over from the log what is new, once; and keeps the table in order: merges small files, forgets old ones, cleans up.

The manifest is the checkpoint. A round reads where the table ends, has tasks write what the log holds from there, and commits
the files together with where they end. Whatever is killed meanwhile, the next round begins at the last manifest again, and the
files of the one that failed are nobody's and are deleted in time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.model.errors import MainstemError
from mainstem.pipelines.errors import PipelineError
from mainstem.pipelines.source.offset_range import OffsetRange, split_ranges
from mainstem.pipelines.source.options import SourceOptions
from mainstem.pipelines.source.rate_limit import limit_rows
from mainstem.pipelines.source.source import TopicScan
from mainstem.pipelines.tables import columns
from mainstem.pipelines.tables.facts import GROUP, TableFacts, table_facts
from mainstem.pipelines.tables.files import TableFiles
from mainstem.pipelines.tables.housekeeping import Times, collect_orphans, tidy_table
from mainstem.pipelines.tables.manifest import Gap, Manifest, TableFile
from mainstem.pipelines.tables.store import TableStore
from mainstem.pipelines.tables.tasks import Task, run_tasks
from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition

ROUND_RECORDS_MAX = 4_000_000
"""Taken over by one commit: what is done of a long backlog is not lost with the task that does the rest."""
TASK_RECORDS_MIN = 50_000
"""A range is not cut into tasks smaller than these."""

logger = logging.getLogger(__name__)


class TopicMadeAnew(PipelineError):
    """The topic was deleted while its records were taken over."""


class Round(NamedTuple):
    """What one round has done."""

    records: int
    """Offsets taken over."""
    is_behind: bool
    """Whether there was more."""
    manifest: Manifest | None


class TableWriter:
    """Of one topic."""

    def __init__(
        self,
        spark: SparkSession,
        address: str,
        topic: str,
        times: Times | None = None,
        records_max: int = ROUND_RECORDS_MAX,
    ) -> None:
        self._spark = spark
        self._address = address
        self._topic = topic
        self._times = times or Times()
        self._records_max = records_max
        self._schema: tuple[str, dict[str, str], StructType] | None = None

    def take_over(self) -> Round:
        """One round. Raises TableTaken where somebody else writes the same table."""
        with Client(self._address, client_id="mainstem-table") as client:
            facts = table_facts(client, self._topic)
            store = TableStore(facts.location)
            manifest = store.latest() or Manifest(0, "", topic=facts.topic, topic_id=facts.topic_id)
            starts, ends, gaps = self._stretch(client, facts, manifest)
            wanted = sum(end - starts[at] for at, end in ends.items())
            limited = limit_rows(starts, ends, self._records_max)
            records = sum(end - starts[at] for at, end in limited.items())
            if not records:
                self._report(client, manifest)
                return Round(0, False, manifest if manifest.version else None)
            manifest = self._laid_out(manifest, facts)
            ranges = [OffsetRange(at.topic, at.partition, starts[at], end) for at, end in limited.items()]
            files = self._write(store, manifest, facts, ranges)
            if str(client.cluster([self._topic]).ids[self._topic]) != facts.topic_id:
                raise TopicMadeAnew(f"Topic {self._topic!r} was deleted and made anew: its table is another one now.")
            following = manifest.followed_by(
                now_ms=self._times.now_ms(),
                added=files,
                ends={at.partition: end for at, end in limited.items()},
                gaps=gaps,
            )
            store.commit(following)
            self._report(client, following)
            return Round(records, records < wanted, following)

    def tidy_table(self) -> Manifest | None:
        """Merge, forget, clean up: one commit at most."""
        facts = self._facts()
        return tidy_table(TableStore(facts.location), self._run, self._times, facts.retention_ms)

    def collect_orphans(self) -> int:
        """Deletes files that no manifest names and no task writes any more."""
        return collect_orphans(TableStore(self._facts().location), self._times)

    def _facts(self) -> TableFacts:
        with Client(self._address, client_id="mainstem-table") as client:
            return table_facts(client, self._topic)

    # A round

    def _stretch(
        self, client: Client, facts: TableFacts, manifest: Manifest
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], list[Gap]]:
        """From where the table ends, or the log begins, to where the log ends; and what was lost between."""
        kept = client.offsets(dict.fromkeys(facts.partitions, EARLIEST))
        ends = client.offsets(dict.fromkeys(facts.partitions, LATEST))
        starts, gaps = {}, []
        for at in facts.partitions:
            begun = manifest.ends.get(at.partition)
            starts[at] = kept[at] if begun is None else max(begun, kept[at])
            if begun is not None and begun < kept[at]:
                gaps.append(Gap(at.partition, begun, kept[at]))
                logger.warning("Offsets %d to %d of %s-%d were gone before its table had them", begun, kept[at], *at)
        return starts, {at: max(end, starts[at]) for at, end in ends.items()}, gaps

    def _laid_out(self, manifest: Manifest, facts: TableFacts) -> Manifest:
        """With the columns that are written now; other ones than before are another layout."""
        options = self._options(facts)
        asked = (facts.topic_id, facts.value_options)
        known = columns.parse_schema(manifest.schema) if manifest.schema else None
        is_sampled = facts.value_options.get("value.format") == "json" and "value.schema" not in facts.value_options
        if known is not None and is_sampled:
            # sampled once: what comes later and does not fit is in _corrupt
            if "struct" in known["value"].dataType.simpleString():
                return manifest
        if self._schema is None or self._schema[:2] != asked:
            self._schema = (*asked, columns.topic_columns(options))
        wanted = columns.table_columns(columns.stored_columns(self._schema[2]))
        if known is None:
            return _with_schema(manifest, wanted, manifest.layout)
        wider = columns.widened(known, wanted, facts.topic)
        if facts.value_options.get("value.format") != "json" and wider.simpleString() != wanted.simpleString():
            columns.refuse_change(known, wanted, facts.topic)
        if wider.simpleString() == known.simpleString():
            return manifest
        return _with_schema(manifest, wider, manifest.layout + 1)

    def _write(
        self, store: TableStore, manifest: Manifest, facts: TableFacts, ranges: Iterable[OffsetRange]
    ) -> list[TableFile]:
        total = sum(one.size for one in ranges)
        tasks = min(self._spark.sparkContext.defaultParallelism, max(total // TASK_RECORDS_MIN, 1))
        parts = split_ranges(ranges, tasks)
        stored = columns.without_day(columns.parse_schema(manifest.schema))
        task = _RangeTask(self._options(facts), stored, store, manifest.layout)
        return self._run(parts, task)

    def _options(self, facts: TableFacts) -> dict[str, str]:
        return {
            "address": self._address,
            "topic": self._topic,
            "includeHeaders": "true",
            **facts.value_options,
        }

    def _report(self, client: Client, manifest: Manifest) -> None:
        offsets = {TopicPartition(self._topic, partition): end for partition, end in manifest.ends.items()}
        try:
            client.commit(GROUP + self._topic, offsets)
        except MainstemError as error:
            logger.warning("The progress of the table of %r is not shown: %s", self._topic, error)

    def _run(self, parts: Sequence[Any], task: Task) -> list[TableFile]:
        return run_tasks(self._spark, f"table of {self._topic}", parts, task)


class _RangeTask:
    """Writes what the log has in a range."""

    def __init__(self, options: Mapping[str, str], stored: StructType, store: TableStore, layout: int) -> None:
        self._options = dict(options)
        self._stored = stored
        self._store = store
        self._layout = layout

    def __call__(self, wanted: OffsetRange) -> list[TableFile]:
        scan = TopicScan(SourceOptions(self._options), self._stored)
        files = TableFiles(self._store, to_arrow_schema(self._stored, timezone="UTC"), by_day=True, layout=self._layout)
        for batch in scan.read(wanted):
            files.write(batch)
        return files.close()


def _with_schema(manifest: Manifest, schema: StructType, layout: int) -> Manifest:
    return msgspec.structs.replace(manifest, schema=columns.schema_text(schema), layout=layout)
