"""What can be said to the source. Names of Spark's Kafka source are understood, so that a job changes one word."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping

from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.options import Options
from mainstem.pipelines.source.starting_point import EARLIEST_POINT, LATEST_POINT, Point, parse_offsets, parse_times
from mainstem.sdk.client import Client
from mainstem.sdk.errors import UnknownTopic
from mainstem.sdk.operations import TopicPartition
from mainstem.sdk.stages import http_address

FORMATS = ("raw", "string", "json", "avro", "protobuf", "registry")
HTTP_ADDRESS = "httpAddress"
HISTORIES = ("log", "table", "current")
DECODERS = ("auto", "numpy", "numba")

ALIASES = {
    "subscribe": "topics",
    "subscribePattern": "topicPattern",
    "maxOffsetsPerTrigger": "maxRowsPerTrigger",
    "kafka.group.id": "group",
}
KNOWN = (
    "topic",
    "topics",
    "topicPattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "group",
    "value.format",
    "value.schema",
    "value.message",
    HTTP_ADDRESS,
    "decoder",
    "history",
    *ALIASES,
)
SELECTIONS = ("topic", "topics", "topicPattern", "assign", "path")


class SourceOptions(Options):
    """The options of a read."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given, KNOWN)
        for alias, name in ALIASES.items():
            value = self._values.pop(alias.lower(), None)
            if value is not None:
                if name.lower() in self._values:
                    raise InvalidOption(f"Options `{alias}` and `{name}` say the same: give one of them.")
                self._values[name.lower()] = value
        chosen = [name for name in SELECTIONS if name.lower() in self._values]
        if len(chosen) != 1:
            said = f"{' and '.join(chosen)} are given" if chosen else "none of them is given"
            raise InvalidOption(f"One of the options `topic`, `topics`, `topicPattern`, `assign` is needed; {said}.")
        self.selection = chosen[0]
        self.rows_max = self.number("maxRowsPerTrigger")
        self.bytes_max = self.number("maxBytesPerTrigger")
        self.partitions_min = self.number("minPartitions")
        self.is_loss_an_error = self.flag("failOnDataLoss", True)
        self.with_headers = self.flag("includeHeaders", False)
        self.group = self.text("group")
        self.format = self.choice("value.format", FORMATS, "raw")
        self.decoder = self.choice("decoder", DECODERS, "auto")
        self.history = self.choice("history", HISTORIES, "log")
        if self.group is not None and not self.group.strip():
            raise InvalidOption("Option `group` is empty; leave it out to have a group named for you.")
        if self.format in ("avro", "protobuf") and self.text("value.schema") is None:
            raise InvalidOption(f"Option `value.schema` is needed with value.format {self.format}.")
        if self.text(HTTP_ADDRESS) is not None and self.format != "registry":
            raise InvalidOption(f"Option `{HTTP_ADDRESS}` has no meaning with value.format {self.format}.")
        if self.format in ("raw", "string") and self.text("value.schema") is not None:
            raise InvalidOption(f"Option `value.schema` has no meaning with value.format {self.format}.")
        if self.format == "protobuf" and self.text("value.message") is None:
            raise InvalidOption(
                "Option `value.message`, the name of the message, is needed with value.format protobuf."
            )

    def starting(self, default: Point) -> Point:
        """Where a read begins."""
        return self._point("starting", default)

    def ending(self) -> Point:
        """Where a batch read ends."""
        return self._point("ending", LATEST_POINT)

    def refuse_ending(self) -> None:
        """A stream has no end."""
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if self.text(name) is not None:
                raise InvalidOption(f"Option `{name}` has no meaning for a stream: read a batch, or stop the query.")
        if self.history != "log":
            raise InvalidOption("Option `history` has no meaning for a stream, which reads the log: read a batch.")

    def refuse_limits(self) -> None:
        """A batch read is not cut into triggers."""
        for name in ("maxRowsPerTrigger", "maxBytesPerTrigger"):
            if self.text(name) is not None:
                raise InvalidOption(f"Option `{name}` has no meaning for a batch read: use endingOffsets.")

    def _point(self, which: str, default: Point) -> Point:
        offsets = self.text(f"{which}Offsets")
        time_ms = self.number(f"{which}Timestamp", least=0)
        times = self.text(f"{which}OffsetsByTimestamp")
        given = [value for value in (offsets, time_ms, times) if value is not None]
        if len(given) > 1:
            raise InvalidOption(
                f"Options `{which}Offsets`, `{which}Timestamp` and `{which}OffsetsByTimestamp`: give one of them."
            )
        falls_to_latest = self.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest"
        if time_ms is not None:
            return Point(time_ms=time_ms, falls_to_latest=falls_to_latest)
        if times is not None:
            return parse_times(f"{which}OffsetsByTimestamp", times, falls_to_latest)
        if offsets is not None:
            return parse_offsets(f"{which}Offsets", offsets, falls_to_latest)
        return default

    def partitions(self, client: Client) -> list[TopicPartition]:
        """Every partition that is meant, as of now."""
        match self.selection:
            case "topicPattern":
                pattern = self._pattern()
                counts = {name: n for name, n in client.partition_counts().items() if pattern.fullmatch(name)}
            case "assign":
                return self._assigned(client)
            case _:
                text = self.text(self.selection) or ""
                names = [text] if self.selection == "topic" else [name.strip() for name in text.split(",")]
                names = [name for name in dict.fromkeys(names) if name]
                if not names:
                    raise InvalidOption(f"Option `{self.selection}` names no topic.")
                counts = client.partition_counts(names)
        return [TopicPartition(name, index) for name in sorted(counts) for index in range(counts[name])]

    def _pattern(self) -> re.Pattern[str]:
        text = self.text("topicPattern") or ""
        try:
            return re.compile(text)
        except re.error as fact:
            raise InvalidOption(f"Option `topicPattern` is no regular expression: {fact}.") from None

    def _assigned(self, client: Client) -> list[TopicPartition]:
        try:
            given = json.loads(self.text("assign") or "")
            wanted = sorted({TopicPartition(name, int(index)) for name, indices in given.items() for index in indices})
        except (ValueError, AttributeError, TypeError):
            raise InvalidOption('Option `assign` must be JSON like {"orders": [0, 1]}.') from None
        counts = client.partition_counts({at.topic for at in wanted})
        for at in wanted:
            if at.partition >= counts[at.topic]:
                raise UnknownTopic(at.topic, at.partition)
        return wanted

    def subject(self) -> str:
        """Where the schemas of the values are registered."""
        given = self.text("value.schema")
        if given is not None:
            return given
        names = (self.text(self.selection) or "").split(",")
        if self.selection not in ("topic", "topics") or len(names) != 1:
            raise InvalidOption(
                "Option `value.schema`, the subject, is needed with value.format registry and several topics."
            )
        return f"{names[0].strip()}-value"

    def registry_address(self) -> str:
        """Of the HTTP listener, whose registry is asked."""
        given = self.text(HTTP_ADDRESS)
        if given is not None:
            return given
        with self.client() as client:
            return http_address(client)

    def chosen_decoder(self) -> str:
        """Asked where the decoding is done: an executor may have numba or not."""
        has_numba = importlib.util.find_spec("numba") is not None
        if self.decoder == "numba" and not has_numba:
            raise InvalidOption(
                "Option `decoder` is numba, which is not installed: pip install 'mainstem[spark-fast]'."
            )
        if self.decoder == "auto":
            return "numba" if has_numba else "numpy"
        return self.decoder


START_OF_BATCHES = EARLIEST_POINT
START_OF_STREAMS = LATEST_POINT
