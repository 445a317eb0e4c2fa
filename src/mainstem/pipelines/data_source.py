"""What Spark meets under `format("mainstem")`.

An instance is made anew for every read and write, and pickled to executors: it holds the options and nothing else.
Parts are imported when they are asked for, so that a read does not load the sink, nor an executor the planner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """A topic, or several, as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "mainstem"

    def schema(self) -> StructType | str:
        """The columns of a read without a schema of the user's."""
        if self._is_of_queue:
            from mainstem.pipelines.queue_mode.columns import queue_schema

            return queue_schema(self.options)
        if "system" in self.options:
            from mainstem.pipelines.sql.system_source import system_schema

            return system_schema(self.options)
        if self._history in ("table", "current"):
            from mainstem.pipelines.tables.history_source import history_schema

            return history_schema(self.options)
        from mainstem.pipelines.source.source import source_schema

        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        if self._is_of_queue:
            from mainstem.pipelines.queue_mode.options import refuse_batch_read

            refuse_batch_read()
        if "system" in self.options:
            from mainstem.pipelines.sql.system_source import SystemReader

            return SystemReader(self.options, schema)
        if self._history == "current":
            from mainstem.pipelines.tables.current_source import CurrentReader

            return CurrentReader(self.options, schema)
        if self._history == "table":
            from mainstem.pipelines.tables.history_source import HistoryReader

            return HistoryReader(self.options, schema)
        from mainstem.pipelines.source.source import TopicReader

        return TopicReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A streaming read."""
        if self._is_of_queue:
            from mainstem.pipelines.queue_mode.stream import QueueStreamReader

            return QueueStreamReader(self.options, schema)
        from mainstem.pipelines.source.stream_source import TopicStreamReader

        return TopicStreamReader(self.options, schema)

    @property
    def _history(self) -> str:
        options = {name.lower(): value for name, value in self.options.items()}
        return options.get("history", "").lower()

    @property
    def _is_of_queue(self) -> bool:
        return "subscription" in {name.lower() for name in self.options}

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A batch write: all rows or none."""
        if "settle" in {name.lower() for name in self.options}:
            from mainstem.pipelines.queue_mode.settling import settle_writer

            return settle_writer(self.options, schema)
        from mainstem.pipelines.sink.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """A streaming write, exactly once."""
        from mainstem.pipelines.sink.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
