"""Records of a topic over HTTP: where they are read from, what is wanted of them, and how far one request goes."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.broker.records.browsing import ScanLimits
from mainstem.wire.record_batch import Record, encode_batch, encode_marker
from tests.support.clients.http_client import NOW_MS, Client, with_client

ALL = "/v1/topics/t/records"


async def fill(client: Client, *values: bytes | None, partition: int = 0, time_ms: int = NOW_MS, **batch: Any) -> None:
    records = [
        Record(number, time_ms + number, f"k{number % 3}".encode(), value, (("n", str(number).encode()),))
        for number, value in enumerate(values)
    ]
    await client.publish_batch("t", encode_batch(records, **batch), partition)


def offsets(page: Any) -> list[int]:
    return [record["offset"] for record in page["records"]]


@with_client
async def test_records_come_in_pages_from_the_oldest_on(client: Client) -> None:
    await client.create("t")
    await fill(client, *(b'{"a": %d}' % n for n in range(5)))
    page = await client.get(f"{ALL}?limit=2")
    assert page["records"][0] == {
        "partition": 0, "offset": 0, "time_ms": NOW_MS, "size": 12, "key": "k0", "value": {"a": 0}, "headers": {"n": "0"},
    }  # fmt: skip
    seen = offsets(page)
    while not page["complete"]:
        page = await client.get(page["next"])
        seen += offsets(page)
    assert seen == [0, 1, 2, 3, 4]
    await fill(client, b"6")
    page = await client.get(page["next"])
    assert (offsets(page), page["complete"]) == ([5], True), "what came since is found from the last page on"


@with_client
async def test_the_newest_come_first_down_to_the_start(client: Client) -> None:
    await client.create("t")
    for _ in range(3):
        await fill(client, *(b"v" for _ in range(4)))
    page = await client.get(f"{ALL}?newest=5")
    assert (offsets(page), page["follow"]) == ([11, 10, 9, 8, 7], "0:12")
    page = await client.get(page["next"])
    assert offsets(page) == [6, 5, 4, 3, 2]
    page = await client.get(page["next"])
    assert (offsets(page), page["next"], page["complete"]) == ([1, 0], None, True)
    await fill(client, b"new")
    assert offsets(await client.get(f"{ALL}?after=0:12")) == [12]


@with_client
async def test_partitions_are_merged_by_time_in_both_directions(client: Client) -> None:
    await client.create("t", 3)
    for partition in range(3):
        await client.publish("t", *(NOW_MS + 10 * n + partition for n in range(3)), partition=partition)
    page = await client.get(ALL)
    places = [(record["offset"], record["partition"]) for record in page["records"]]
    assert places == [(offset, partition) for offset in range(3) for partition in range(3)]
    page = await client.get(f"{ALL}?newest=9")
    assert [(record["offset"], record["partition"]) for record in page["records"]] == places[::-1]
    assert [r["partition"] for r in (await client.get(f"{ALL}?partition=1"))["records"]] == [1, 1, 1]


@with_client
async def test_reading_begins_at_an_offset_or_a_time(client: Client) -> None:
    await client.create("t")
    await fill(client, *(b"v" for _ in range(5)))
    assert offsets(await client.get(f"{ALL}?offset=3")) == [3, 4]
    assert offsets(await client.get(f"{ALL}?time_ms={NOW_MS + 2}")) == [2, 3, 4]
    assert offsets(await client.get(f"{ALL}?time_ms={NOW_MS + 2}&newest=9")) == [1, 0], "before that time"
    assert offsets(await client.get(f"{ALL}?offset=3&newest=2")) == [2, 1]
    assert offsets(await client.get(f"{ALL}?time_ms={NOW_MS + 100}")) == []
    await client.broker.trim(client.broker.topics.get("t").logs[0], 2)
    assert offsets(await client.get(f"{ALL}?offset=0")) == [2, 3, 4], "what is gone is passed over"


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("amount > 100", [2]),
        ("value.amount <= 100", [0, 1]),
        ("customer.country = 'DE'", [1]),
        ("n = 2", [2]),
        ("headers.n = '1' OR offset = 0", [0, 1]),
        ("key = 'k1'", [1]),
        ("missing IS NULL AND partition = 0", [0, 1, 2, 3]),
        (f"timestamp >= {NOW_MS + 2}", [2, 3]),
        ("name LIKE 'A%'", [0]),
    ],
)  # fmt: skip
def test_a_filter_sees_key_headers_and_json(where: str, found: list[int]) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.create("t")
        await fill(
            client,
            b'{"amount": 5, "name": "Ana"}',
            b'{"amount": 100, "customer": {"country": "DE"}}',
            b'{"amount": 101}',
            b"\xff no JSON",
        )
        page = await client.ask("GET", f"{ALL}?where={where.replace(' ', '+').replace('%', '%25')}")
        assert (page.status, offsets(page.json()), page.json()["scanned"]) == (200, found, 4)

    run()


@with_client
async def test_a_key_selects_its_records(client: Client) -> None:
    await client.create("t")
    await fill(client, *(b"v" for _ in range(7)))
    assert offsets(await client.get(f"{ALL}?key=k1")) == [1, 4]
    assert offsets(await client.get(f"{ALL}?key=k1&newest=1")) == [4]


@with_client
async def test_an_index_of_keys_finds_records_without_reading_all(client: Client) -> None:
    await client.create("t", 2, **{"key.index": "true"})
    for number in range(40):
        records = [Record(0, NOW_MS + number, b"rare" if number in (7, 31) else b"often", b"v" * 3_000)]
        await client.publish_batch("t", encode_batch(records), number % 2)
    page = await client.get(f"{ALL}?key=rare")
    assert [(record["partition"], record["offset"]) for record in page["records"]] == [(1, 3), (1, 15)]
    assert page["complete"]
    assert page["scanned"] < 10
    assert offsets(await client.get(f"{ALL}?key=none")) == []
    first = await client.get(f"{ALL}?key=rare&limit=1")
    assert offsets(await client.get(first["next"])) == [15]
    await client.publish_batch("t", encode_batch([Record(0, NOW_MS, b"rare", b"v")]), 0)
    assert offsets(await client.get(page["next"])) == [20]


@with_client
async def test_a_filter_says_how_far_it_came(client: Client) -> None:
    client.broker.records._limits = ScanLimits(records=10)
    await client.create("t")
    for _ in range(5):
        await fill(client, *(b"v" for _ in range(5)))
    seen, pages, path = [], 0, f"{ALL}?where=offset+%3D+23"
    while not seen:
        page = await client.get(path)
        pages += 1
        assert page["scanned"] <= 10
        seen, path = offsets(page), page["next"]
    assert (seen, pages) == ([23], 3)


@with_client
async def test_a_page_ends_when_it_is_large(client: Client) -> None:
    client.broker.records._limits = ScanLimits(page_bytes=3_000)
    await client.create("t")
    await fill(client, *(b"v" * 1_000 for _ in range(6)))
    page = await client.get(ALL)
    assert offsets(page) == [0, 1, 2]
    assert offsets(await client.get(page["next"])) == [3, 4, 5]


@with_client
async def test_only_committed_records_are_shown(client: Client) -> None:
    await client.create("t")
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    await fill(client, b"aborted", base_sequence=0, **producer)
    await client.publish_batch("t", encode_marker(7, 0, commit=False, timestamp_ms=NOW_MS))
    await fill(client, b"plain")
    await fill(client, b"open", base_sequence=1, **producer)
    page = await client.get(ALL)
    assert ([record["text"] for record in page["records"]], page["complete"]) == (["plain"], True)
    assert offsets(await client.get(f"{ALL}?newest=9")) == [2]


@with_client
async def test_compressed_batches_are_opened_by_a_thread(client: Client) -> None:
    await client.create("t")
    await fill(client, *(b"v" * 100 for _ in range(1_000)), compression=1)
    assert offsets(await client.get(f"{ALL}?offset=990&limit=5")) == [990, 991, 992, 993, 994]
    assert offsets(await client.get(f"{ALL}?newest=2")) == [999, 998]


@with_client
async def test_values_are_json_text_or_base64(client: Client) -> None:
    await client.create("t")
    await fill(client, b'{"a":  1.0}', b"plain", b"\xff\0", None, b"null", b"", b"[1,\n2]", b"12345678901234567890123")
    shown = [
        {name: record[name] for name in ("value", "text", "base64") if name in record}
        for record in (await client.get(ALL))["records"]
    ]
    assert shown == [
        {"value": {"a": 1.0}}, {"text": "plain"}, {"base64": "/wA="}, {"value": None}, {"text": "null"}, {"text": ""},
        {"text": "[1,\n2]"}, {"value": 12345678901234567890123},
    ]  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=9).map(lambda t: json.dumps(t).encode())))
)
def test_what_was_read_and_published_again_is_the_same(values: list[bytes | None]) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.create("t", 2)
        await client.create("copy", 2)
        headers = (("a", b"1"), ("a", b"\xff"), ("b", None))
        records = [Record(n, n, (None, b"k", b"\xfe")[n % 3], value, headers) for n, value in enumerate(values)]
        if not records:
            return
        await client.publish_batch("t", encode_batch(records), 1)
        lines = await client.ask("GET", ALL, None, "Accept: application/x-ndjson")
        sent = await client.ask("POST", "/v1/topics/copy/records", lines.body, "Content-Type: application/x-ndjson")
        assert sent.status == 200, sent.body
        topics = [client.broker.topics.get(name) for name in ("t", "copy")]
        first, second = [(await client.broker.records.page(topic, {0: 0, 1: 0}, 99)).found for topic in topics]
        assert first == second

    run()


@with_client
async def test_a_reader_waits_for_what_comes(client: Client) -> None:
    await client.create("t")

    async def later() -> None:
        await asyncio.sleep(0)
        await fill(client, b'{"n": 1}')
        await fill(client, b'{"n": 2}')

    task = asyncio.create_task(later())
    page = await client.get(f"{ALL}?wait_ms=20000&where=value.n=2")
    assert (offsets(page), page["position"]) == ([1], "0:2")
    await task
    page = await client.get(f"{ALL}?after=0:2&wait_ms=1")
    assert (offsets(page), page["complete"]) == ([], True)


@pytest.mark.parametrize(
    ("query", "status", "problem"),
    [
        ("where=a+%3D", 400, "invalid-parameter"),
        ("offset=9", 400, "invalid-parameter"),
        ("offset=9&partition=0", 400, "offset-out-of-range"),
        ("partition=5", 404, "unknown-partition"),
        ("after=x", 400, "invalid-parameter"),
        ("after=0:1,0:2", 400, "invalid-parameter"),
        ("after=9:1", 400, "invalid-parameter"),
        ("after=0:1&offset=1", 400, "invalid-parameter"),
        ("after=0:99", 400, "offset-out-of-range"),
        ("limit=0", 400, "invalid-parameter"),
        ("newest=1001", 400, "invalid-parameter"),
        ("wait_ms=30001", 400, "invalid-parameter"),
        ("nonsense=1", 400, "invalid-parameter"),
        ("namespace=nowhere", 404, "unknown-topic"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_so(query: str, status: int, problem: str) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.create("t", 2)
        reply = await client.ask("GET", f"{ALL}?{query}")
        assert (reply.status, reply.problem) == (status, problem)

    run()


@with_client
async def test_an_unknown_topic_is_404(client: Client) -> None:
    reply = await client.ask("GET", "/v1/topics/none/records")
    assert (reply.status, reply.problem) == (404, "unknown-topic")
