"""Topics that are kept as tables, and how far those are.

The tables are written by pipelines, not by the broker: it tells what their manifests say, where they lie on a disk that it sees.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, Topic
from mainstem.broker.log import Edge
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.operation.operations import Operations
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import Page, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.documents import NoQuery, PageQuery
from mainstem.protocols.http.mapping.table_documents import (
    ManifestHead,
    TableDocument,
    TableFacts,
    TablePage,
    TablePartition,
    decode_head,
)
from mainstem.protocols.http.mapping.topic_documents import TopicPath

OK = 200
TABLES = "/v1/tables"
TABLE = "/v1/tables/{name}"
HEAD_BYTES_MAX = 16 << 20
"""Of a manifest's first line: a topic has at most 100,000 partitions."""


class TableHandlers:
    """/v1/tables."""

    def __init__(self, broker: Broker, operations: Operations) -> None:
        self._broker = broker
        self._operations = operations

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("GET", TABLES, self.list_tables, {OK: TablePage}, query=PageQuery),
            Route("GET", TABLE, self.get_table, {OK: TableDocument}, steps=TopicPath, query=NoQuery,
                  refusals=(errors.UnknownTopic,)),
        ]  # fmt: skip

    async def list_tables(self, call: Call) -> TablePage:
        """Topics that are kept as tables, by name."""
        topics, query, pace = self._broker.topics.named(), call.query, Pace(self._broker.clock)
        kept = [topic.name for topic in self._broker.topics.tables() if topic.namespace == DEFAULT_NAMESPACE]
        names, more = await smallest(kept, query.after, query.limit, pace)
        shown: list[TableFacts] = []
        for name in names:
            if name in topics:
                document = await self._describe(topics[name], pace)
                shown.append(TableFacts(**{field: getattr(document, field) for field in TableFacts.__struct_fields__}))
        return TablePage(shown, Page(TABLES, query.limit).after(names[-1]) if more else None)

    async def get_table(self, call: Call) -> TableDocument:
        """A topic's table: where it lies, how large it is, and up to where it has what the log has."""
        topic = self._broker.topics.get(call.path.name)
        if not _is_table(topic):
            raise errors.UnknownTopic(
                f"topic {topic.name} is not kept as a table: its configuration `table` is not true"
            )
        return await self._describe(topic, Pace(self._broker.clock))

    async def _describe(self, topic: Topic, pace: Pace) -> TableDocument:
        location = self._location(topic)
        head = await asyncio.to_thread(_read_head, location)
        partitions = []
        for partition, log in enumerate(topic.logs):
            end = (await self._broker.find(log, Edge.END)).offset
            partitions.append(TablePartition(partition, None if head is None else head.ends.get(partition), end))
            await pace.step()
        lag = sum(max(one.end - (one.table_end or 0), 0) for one in partitions)
        return TableDocument(
            topic=topic.name,
            topic_id=str(topic.id),
            location=location,
            version=None if head is None else head.version,
            rows=0 if head is None else head.rows,
            bytes=0 if head is None else head.bytes,
            files=0 if head is None else head.file_count,
            lag_messages=None if head is None and _local(location) is None else lag,
            gaps=0 if head is None else len(head.gaps),
            written_ms=None if head is None else head.written_ms,
            partitions=partitions,
        )

    def _location(self, topic: Topic) -> str:
        base = topic.configs.get("table.location", "").rstrip("/")
        return f"{base or f'{self._operations.data_directory()}/tables/{topic.name}'}/{topic.id}"


def _is_table(topic: Topic) -> bool:
    return topic.configs.get("table") == "true"


def _local(location: str) -> Path | None:
    where = urlsplit(location)
    if where.scheme not in ("", "file"):
        return None
    return Path(unquote(where.path) if where.scheme else location)


def _read_head(location: str) -> ManifestHead | None:
    place = _local(location)
    if place is None:
        return None
    try:
        newest = max((path for path in (place / "manifests").glob("*.jsonl")), default=None)
        if newest is None:
            return None
        with newest.open("rb") as file:
            return decode_head(file.readline(HEAD_BYTES_MAX))
    except OSError:
        return None
