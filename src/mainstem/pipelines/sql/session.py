"""A statement to a frame.

Spark is asked first. What it does not find is looked for among the system's tables and the topics, made a view for this one
statement, and Spark is asked again: so only what a statement names is looked at, and each statement sees topics as of now.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from mainstem.pipelines.errors import InvalidOption, PipelineError
from mainstem.pipelines.sql.statements import Insert, join_name, parse_insert, parse_name, quoted, words_of
from mainstem.pipelines.sql.system_source import HTTP_ADDRESS, SYSTEM
from mainstem.pipelines.sql.system_tables import PREFIX, SYSTEM_TABLES
from mainstem.pipelines.sql.views import TopicViews
from mainstem.sdk.client import Client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES_MAX = 64
"""Tables that one statement may name."""
NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"

NO_FILE = "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"
UNKNOWN_SYSTEM_TABLE = (
    f"There is no such table of the system's: there are {', '.join(f'{PREFIX}.{name}' for name in SYSTEM_TABLES)}."
)


class TableUnknown(PipelineError):
    """Neither Spark nor the broker has it."""


class SqlSession:
    """Runs statements, one at a time."""

    def __init__(
        self,
        spark: SparkSession,
        address: str,
        *,
        http_address: str | None = None,
        schemas: dict[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self._options = {"address": address}
        self._http = {HTTP_ADDRESS: http_address} if http_address else {}
        self.topics = TopicViews(spark, self._options, dict(schemas or {}))

    @contextlib.contextmanager
    def running(self, statement: str) -> Iterator[DataFrame]:
        """The answer, which can be read until the end of the block."""
        made: list[str] = []
        try:
            insert = parse_insert(statement)
            if insert is not None and insert.target in self._topic_names():
                yield self._insert(insert, made)
            elif [word.text.upper() for word in words_of(statement)] == ["SHOW", "TABLES"]:
                yield self.tables()
            else:
                yield self._resolved(statement, made)
        finally:
            for name in made:
                self.spark.catalog.dropTempView(name)  # as it is: unlike when it is made, nothing parses it

    def tables(self) -> DataFrame:
        """All that can be asked for by name, but for what Spark has itself."""
        rows = [(f"{PREFIX}.{name}", table.text) for name, table in SYSTEM_TABLES.items()]
        topics = [(quoted(name) if _wants_quotes(name) else name, "topic") for name in self._topic_names()]
        return self.spark.createDataFrame([*topics, *rows], "name STRING, what STRING")

    def cancel(self) -> None:
        """End what the last statement has begun."""
        if hasattr(self.spark, "interruptAll") and "connect" in type(self.spark).__module__:
            self.spark.interruptAll()
        else:
            self.spark.sparkContext.cancelAllJobs()

    def _resolved(self, statement: str, made: list[str]) -> DataFrame:
        # Spark would take what stands before the dot for a format, and the rest for a file
        for name in SYSTEM_TABLES:
            statement = join_name(statement, [PREFIX, name])
        for _ in range(NAMES_MAX):
            try:
                frame = self.spark.sql(statement)
                # a remote session has not looked at it before somebody asks
                frame.schema  # noqa: B018
            except AnalysisException as error:
                if (error.getCondition() or "").startswith(NO_FILE):
                    raise TableUnknown(UNKNOWN_SYSTEM_TABLE) from None
                parts = _missing(error)
                if not parts:
                    raise
                made_name = self._make_view(parts)
                if made_name is None or made_name in made:
                    raise TableUnknown(_unknown(parts)) from None
                made.append(made_name)
                statement = join_name(statement, parts)
            else:
                return frame
        raise InvalidOption(f"The statement names more than {NAMES_MAX} tables.")

    def _make_view(self, parts: list[str]) -> str | None:
        """Under the name that the statement has for it, its parts as one."""
        name = ".".join(parts)
        frame = self._frame_of(parts)
        if frame is not None:
            frame.createOrReplaceTempView(quoted(name))
        return None if frame is None else name

    def _frame_of(self, parts: list[str]) -> DataFrame | None:
        name = ".".join(parts)
        schema, _, table = name.lower().partition(".")
        if schema == PREFIX and table in SYSTEM_TABLES:
            options = self._options | self._http | {SYSTEM: table}
            return self.spark.read.format("mainstem").options(**options).load()
        topics = self._topic_names()
        if name not in topics:
            alike = [topic for topic in topics if topic.lower() == name.lower()]
            if len(alike) != 1:
                return None
            name = alike[0]
        return self.topics.frame(name)

    def _insert(self, insert: Insert, made: list[str]) -> DataFrame:
        """All rows or none, published when this returns."""
        rows = self._resolved(insert.query, made)
        if insert.columns:
            if len(insert.columns) != len(rows.columns):
                raise InvalidOption(f"{len(insert.columns)} columns are named, and the query has {len(rows.columns)}.")
            rows = rows.toDF(*insert.columns)
        elif len(rows.columns) == 1:
            rows = rows.toDF("value")
        options = self._options | self._http | {"topic": insert.target}
        rows.write.format("mainstem").mode("append").options(**options).save()
        return self.spark.createDataFrame([], "inserted STRING")

    def _topic_names(self) -> list[str]:
        with Client(self._options["address"], client_id="mainstem-sql") as client:
            return sorted(client.partition_counts())


def _missing(error: AnalysisException) -> list[str]:
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    return parse_name(parameters.get("relationName", "")) if condition.startswith(NOT_FOUND) else []


def _unknown(parts: list[str]) -> str:
    return f"There is no topic or table {'.'.join(parts)!r}: \\d, or SHOW TABLES, lists what there is."


def _wants_quotes(name: str) -> bool:
    return not all(part.isidentifier() for part in name.split("."))
