"""A topic as a view: its values decoded as it says, as the user says, or as they look."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.functions import col, from_json

from mainstem.pipelines.errors import InvalidOption, SchemaMismatch
from mainstem.pipelines.source.json_columns import sampled_type, sampled_values
from mainstem.pipelines.source.options import SourceOptions
from mainstem.pipelines.source.source import source_schema
from mainstem.pipelines.tables import columns
from mainstem.pipelines.tables.facts import FORMAT, SCHEMA, table_facts
from mainstem.pipelines.tables.reading import read_topic
from mainstem.sdk.client import Client
from mainstem.sdk.errors import ClientError
from mainstem.wire.schemas.framing import schema_id_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW, STRING, JSON, REGISTRY = "raw", "string", "json", "registry"


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
        if wanted[FORMAT] == REGISTRY:
            wanted = {FORMAT: RAW}  # Rows of the table are bytes, and Spark does not ask the registry.
        return _decode(read_topic(self._spark, topic, self._options), wanted)

    def _sample_format(self, topic: str, topic_id: str) -> dict[str, str]:
        """What the values look like: JSON objects, text, or bytes."""
        found = self._looks.get((topic, topic_id))
        if found is None:
            values = list(sampled_values(SourceOptions({**self._options, "topic": topic, FORMAT: JSON})))
            found = self._registered(topic, values) or _look_of(values)
            if values:
                self._looks[topic, topic_id] = found
        return found

    def _registered(self, topic: str, values: list[bytes]) -> dict[str, str] | None:
        """That the registry has the schema of a topic whose values all name one."""
        if not values or any(schema_id_of(value) is None for value in values):
            return None
        wanted = {FORMAT: REGISTRY, SCHEMA: f"{topic}-value"}
        try:
            source_schema({**self._options, "topic": topic, **wanted})
        except (InvalidOption, ClientError, SchemaMismatch):
            return None  # They only begin with a zero, or their schema has no columns.
        return wanted


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
