"""What the broker knows of itself, as rows: read page by page, never all at once."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from mainstem.model.header_names import ORIGIN_HEADER
from mainstem.pipelines.source.log_reading import LogReader
from mainstem.pipelines.source.offset_range import OffsetRange
from mainstem.sdk.client import Client
from mainstem.sdk.configs import topic_configs
from mainstem.sdk.http_pages import NOT_FOUND, HttpPages, HttpRefused
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition

PREFIX = "mainstem"
"""The schema in which these tables are."""
LETTER_TOPICS = "errors.deadletterqueue.group.enable"
DEFAULT_NAMESPACE = "default"
ORIGIN_FIELDS = (
    "reason",
    "namespace",
    "queue",
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "died_ms",
    "deliveries",
    "failures",
    "error",
)
PAGE = "limit=1000"

Row = dict[str, Any]


class SystemTable(NamedTuple):
    """One of them."""

    schema: str
    """In Spark's DDL."""
    rows: Callable[[HttpPages, Client], Iterator[Row]]
    text: str


def _topics(http: HttpPages, client: Client) -> Iterator[Row]:
    yield from http.items(f"/v1/topics?{PAGE}", "topics")


def _groups(http: HttpPages, client: Client) -> Iterator[Row]:
    for group in http.items(f"/v1/groups?{PAGE}", "groups"):
        said = {"group": group["name"], **{name: group[name] for name in ("state", "members", "is_shared")}}
        found = False
        for page in _still_there(http, f"/v1/groups/{_step(group['name'])}?{PAGE}"):
            for offset in page["offsets"]:
                found = True
                yield said | offset | {"committed": _time(offset["committed_ms"])}
        if not found:
            yield said


def _queues(http: HttpPages, client: Client) -> Iterator[Row]:
    for space in http.items(f"/v1/namespaces?{PAGE}", "namespaces"):
        namespace = space["name"]
        for queue in http.items(f"/v1/queues?namespace={_step(namespace)}&{PAGE}", "queues"):
            yield queue | {"namespace": namespace}


def _dead_letters(http: HttpPages, client: Client) -> Iterator[Row]:
    shown: set[str] = set()
    """Queues that are topics too: their messages are not read twice."""
    for queue in _queues(http, client):
        name, namespace = queue["name"], queue["namespace"]
        if namespace == DEFAULT_NAMESPACE:
            shown.add(name)
        asked = f"namespace={_step(namespace)}&header={ORIGIN_HEADER}&{PAGE}"
        for page in _still_there(http, f"/v1/queues/{_step(name)}/messages?{asked}"):
            for message in page["messages"]:
                if message["origin"] is not None:
                    yield {
                        "lies_in": name,
                        "namespace": namespace,
                        "place": message["place"],
                        **_record(message),
                        **_origin(message["origin"]),
                    }
    yield from _letters_in_topics(client, shown)


def _letters_in_topics(client: Client, queues: set[str]) -> Iterator[Row]:
    """What share groups have given up on."""
    names = sorted(client.partition_counts())
    configs = topic_configs(client, names, [LETTER_TOPICS])
    for name in names:
        if configs[name][LETTER_TOPICS] != "true" or name in queues:
            continue
        partitions = [TopicPartition(name, index) for index in range(client.partition_counts([name])[name])]
        starts = client.offsets(dict.fromkeys(partitions, EARLIEST))
        ends = client.offsets(dict.fromkeys(partitions, LATEST))
        reader = LogReader(client, with_headers=True, decoder="numpy", is_loss_an_error=False)
        for at in partitions:
            for columns in reader.read(OffsetRange(name, at.partition, starts[at], ends[at])):
                fields = (columns.offsets.tolist(), columns.keys, columns.values, columns.headers or ())
                for offset, key, value, headers in zip(*fields, strict=True):
                    facts = {one["key"]: one["value"] for one in headers.as_py() or ()}
                    if ORIGIN_HEADER in facts:
                        yield {
                            "lies_in": name,
                            "namespace": DEFAULT_NAMESPACE,
                            "place": f"{at.partition}:{offset}",
                            "key": key.as_py(),
                            "value": value.as_py(),
                            "headers": [
                                (name, _shown(content)) for name, content in facts.items() if name != ORIGIN_HEADER
                            ],
                            **_origin(_decode_origin(facts[ORIGIN_HEADER])),
                        }


def _schedule(http: HttpPages, client: Client) -> Iterator[Row]:
    for one in http.items(f"/v1/schedules?{PAGE}", "schedules"):
        target = one["target"]
        yield {
            "id": one["id"],
            "due": _time(one["due_ms"]),
            "created": _time(one["created_ms"]),
            **{name: target.get(name) for name in ("topic", "partition", "exchange", "routing_key", "namespace")},
            **_record(one),
        }


def _recurrences(http: HttpPages, client: Client) -> Iterator[Row]:
    for one in http.items(f"/v1/recurrences?{PAGE}", "recurrences"):
        said = {name: one[name] for name in ("name", "cron", "zone", "count", "paused")}
        times = {"next": _time(one["next_ms"]), "last": _time(one["last_ms"])}
        yield said | times | {"topic": one["target"].get("topic"), **_record(one)}


def _pipelines(http: HttpPages, client: Client) -> Iterator[Row]:
    for one in http.items(f"/v1/pipelines?all=true&{PAGE}", "pipelines"):
        names = ("name", "origin", "state", "wanted", "revision", "error", "restarts", "worker")
        progress = _time(one["progress_ms"]) if one["progress_ms"] else None
        sinks = [{name: sink.get(name) for name in ("sink", "rows_in", "rows_out", "lag")} for sink in one["sinks"]]
        yield {name: one[name] for name in names} | {"progress": progress, "sinks": msgspec.json.encode(sinks).decode()}


def _tables(http: HttpPages, client: Client) -> Iterator[Row]:
    for one in http.items(f"/v1/tables?{PAGE}", "tables"):
        yield one | {"written": _time(one["written_ms"])}


RECORD = "key BINARY, value BINARY, headers MAP<STRING, STRING>"
SYSTEM_TABLES = {
    "topics": SystemTable("name STRING, id STRING, partitions INT", _topics, "Topics."),
    "groups": SystemTable(
        "group STRING, state STRING, members INT, is_shared BOOLEAN, topic STRING, partition INT, offset BIGINT, end BIGINT, "
        "lag_messages BIGINT, lag_seconds DOUBLE, committed TIMESTAMP, note STRING",
        _groups,
        "Groups, a row for each partition they read, with their lag.",
    ),
    "queues": SystemTable(
        "namespace STRING, name STRING, kind STRING, ready BIGINT, unsettled BIGINT, consumers INT, paused BOOLEAN",
        _queues,
        "Queues, of all virtual hosts: `/` is the namespace default.",
    ),
    "dead_letters": SystemTable(
        "lies_in STRING, namespace STRING, place STRING, reason STRING, queue STRING, topic STRING, partition INT, "
        f"offset BIGINT, created TIMESTAMP, died TIMESTAMP, deliveries INT, failures INT, error STRING, {RECORD}",
        _dead_letters,
        "Dead letters, with where each comes from and why.",
    ),
    "schedule": SystemTable(
        "id STRING, due TIMESTAMP, created TIMESTAMP, topic STRING, partition INT, exchange STRING, routing_key STRING, "
        f"namespace STRING, {RECORD}",
        _schedule,
        "Records that wait for their time.",
    ),
    "recurrences": SystemTable(
        "name STRING, cron STRING, zone STRING, count BIGINT, paused BOOLEAN, next TIMESTAMP, last TIMESTAMP, "
        f"topic STRING, {RECORD}",
        _recurrences,
        "What is published again and again.",
    ),
    "pipelines": SystemTable(
        "name STRING, origin STRING, state STRING, wanted STRING, revision BIGINT, error STRING, restarts BIGINT, "
        "worker STRING, progress TIMESTAMP, sinks STRING",
        _pipelines,
        "Pipelines, and how they are getting on.",
    ),
    "tables": SystemTable(
        "topic STRING, topic_id STRING, location STRING, version BIGINT, rows BIGINT, bytes BIGINT, files BIGINT, "
        "lag_messages BIGINT, gaps INT, written TIMESTAMP",
        _tables,
        "Topics that are kept as tables, and how far those are.",
    ),
}


def _still_there(http: HttpPages, path: str) -> Iterator[Any]:
    """The pages of something that may be gone since it was listed."""
    try:
        yield from http.pages(path)
    except HttpRefused as refused:
        if refused.status != NOT_FOUND:
            raise


def _step(name: str) -> str:
    return quote(name, safe="")


def _time(ms: int | None) -> datetime.datetime | None:
    return None if ms is None else datetime.datetime.fromtimestamp(ms / 1_000, datetime.UTC)


def _bytes(content: Any) -> bytes | None:
    """Text, or base64, as the API shows bytes."""
    if content is None:
        return None
    return content.encode() if isinstance(content, str) else base64.b64decode(content["base64"])


def _shown(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


def _record(document: Row) -> Row:
    headers = [(name, _shown(_bytes(content))) for name, content in document["headers"].items()]
    return {"key": _bytes(document["key"]), "value": _bytes(document["value"]), "headers": headers}


def _origin(facts: Row) -> Row:
    said = {
        name: facts[name]
        for name in ("reason", "queue", "topic", "partition", "offset", "deliveries", "failures", "error")
    }
    return said | {"created": _time(facts["timestamp_ms"]), "died": _time(facts["died_ms"])}


def _decode_origin(content: bytes | None) -> Row:
    """Earlier versions wrote msgpack, not JSON."""
    content = content or b""
    decode = msgspec.json.decode if content.startswith(b"{") else msgspec.msgpack.decode
    try:
        facts = decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        facts = ()
    facts = list(facts.values()) if isinstance(facts, dict) else list(facts)
    return dict.fromkeys(ORIGIN_FIELDS) | dict(zip(ORIGIN_FIELDS, facts, strict=False))
