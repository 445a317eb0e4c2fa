"""A topic as a view: its values decoded as it says, as the user says, or as they look."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.functions import col, from_json

from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.source.json_columns import sampled_type, sampled_values
from mainstem.pipelines.source.options import SourceOptions
from mainstem.pipelines.tables import columns
from mainstem.pipelines.tables.facts import FORMAT, SCHEMA, table_facts
from mainstem.pipelines.tables.reading import read_topic
from mainstem.sdk.client import Client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW, STRING, JSON = "raw", "string", "json"


class TopicViews:
    """Of one session: what was found out about a topic's values stays so."""

    def __init__(self, spark: SparkSession, options: dict[str, str], schemas: dict[str, str]) -> None:
        self._spark = spark
        self._options = options
        self.schemas = schemas
        """By topic: the DDL of its JSON, given by the user."""
        self._looks: dict[tuple[str, str], dict[str, str]] = {}

    def frame(self, topic: str) -> DataFrame:
        """The topic as of now. Raises UnknownTopic."""
        with Client(self._options["address"], client_id="mainstem-sql") as client:
            facts = table_facts(client, topic)
        if topic in self.schemas:
            wanted = {FORMAT: JSON, SCHEMA: self.schemas[topic]}
        elif facts.value_options.get(FORMAT, RAW) != RAW:
            return read_topic(self._spark, topic, self._options)
        else:
            wanted = self._sample_format(topic, facts.topic_id)
        if not facts.is_table:
            return read_topic(self._spark, topic, self._options | wanted)
        return _decode(read_topic(self._spark, topic, self._options), wanted)

    def _sample_format(self, topic: str, topic_id: str) -> dict[str, str]:
        """What the values look like: JSON objects, text, or bytes."""
        found = self._looks.get((topic, topic_id))
        if found is None:
            values = list(sampled_values(SourceOptions({**self._options, "topic": topic, FORMAT: JSON})))
            found = _look_of(values)
            if values:
                self._looks[topic, topic_id] = found
        return found


def _look_of(values: list[bytes]) -> dict[str, str]:
    try:
        parsed = [json.loads(value) for value in values]
    except ValueError:
        parsed = []
    if parsed and all(isinstance(one, dict) for one in parsed):
        try:
            return {FORMAT: JSON, SCHEMA: columns.schema_text(sampled_type(values))}
        except InvalidOption:
            pass
    try:
        for value in values:
            value.decode()
    except UnicodeDecodeError:
        return {FORMAT: RAW}
    return {FORMAT: STRING}


def _decode(frame: DataFrame, wanted: dict[str, str]) -> DataFrame:
    """Bytes of a table, decoded by Spark."""
    if "value" not in frame.columns or wanted[FORMAT] == RAW:
        return frame
    text = col("value").cast("string")
    if wanted[FORMAT] == STRING:
        return frame.withColumn("value", text)
    schema = wanted[SCHEMA]
    kind = columns.parse_schema(schema) if schema.lstrip().startswith("{") else schema
    return frame.withColumn("value", from_json(text, kind))
