"""Publishing over HTTP: every kind of content, in one commit, once."""

import asyncio
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.records.once import LIFE_MS, Once
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import Record
from tests.support.clients.http_client import NOW_MS, Client, SteadyClock, with_client
from tests.support.worlds.brokers import with_engine

ALL = "/v1/topics/t/records"


async def stored(client: Client, topic: str = "t") -> list[tuple[int, Record]]:
    found = client.broker.topics.get(topic)
    page = await client.broker.records.page(found, dict.fromkeys(range(len(found.logs)), 0), 999)
    return [(one.partition, one.record) for one in page.found]


async def send(client: Client, content: Any, *headers: str, path: str = ALL) -> Any:
    reply = await client.ask("POST", path, content, *headers)
    assert reply.status == 200, reply.body
    return reply.json()


@with_client
async def test_json_records_go_where_they_belong(client: Client) -> None:
    await client.create("t", 2)
    wish = [
        {"key": "c1", "value": {"a": 1}, "headers": {"x": "y", "b": {"base64": "/w=="}, "none": None}},
        {"text": "plain", "partition": 1, "time_ms": 5},
        {"base64": "AAE=", "partition": 1},
        {"key": "gone", "value": None, "partition": 0},
    ]
    answer = await send(client, {"records": wish})
    assert answer["repeated"] is False
    found = {(partition, record.offset): record for partition, record in await stored(client)}
    at = [found[position["partition"], position["offset"]] for position in answer["positions"]]
    assert at[0][1:] == (NOW_MS, b"c1", b'{"a": 1}', (("x", b"y"), ("b", b"\xff"), ("none", None)))
    assert (at[1].value, at[1].timestamp_ms, at[2].value, at[3].value) == (b"plain", 5, b"\0\1", None)


@with_client
async def test_text_bytes_and_lines_are_taken(client: Client) -> None:
    await client.create("t")
    single = f"{ALL}?key=k&time_ms=7"
    await send(client, b"hello", "Content-Type: text/plain; charset=utf-8", "Mainstem-Header-Who: me", path=single)
    await send(client, b"\xff\0", "Content-Type: application/octet-stream")
    lines = b'{"value": 1}\n\n{"text": "two", "key": "b"}\n'
    answer = await send(client, lines, "Content-Type: application/x-ndjson")
    assert answer["positions"] == [{"partition": 0, "offset": 2}, {"partition": 0, "offset": 3}]
    assert [(r.key, r.value, r.headers) for _, r in await stored(client)] == [
        (b"k", b"hello", (("who", b"me"),)),
        (None, b"\xff\0", ()),
        (None, b"1", ()),
        (b"b", b"two", ()),
    ]


@with_client
async def test_a_key_goes_to_one_partition_and_all_is_one_commit(client: Client) -> None:
    await client.create("t", 4)
    answer = await send(
        client, {"records": [{"key": "k", "value": n} for n in range(3)] + [{"partition": 3, "value": 9}]}
    )
    assert len({position["partition"] for position in answer["positions"][:3]}) == 1
    refused = await client.ask("POST", ALL, {"records": [{"value": 1}, {"value": 2, "partition": 4}]})
    assert (refused.status, refused.problem) == (404, "unknown-partition")
    assert len(await stored(client)) == 4


@with_client
async def test_a_record_can_be_due_later(client: Client) -> None:
    await client.create("t")
    answer = await send(
        client, {"records": [{"value": 1}, {"value": 2, "after_ms": 60_000}, {"value": 3, "due_ms": NOW_MS + 5}]}
    )
    now, *later = answer["positions"]
    assert now == {"partition": 0, "offset": 0}
    for position, due_ms in zip(later, (NOW_MS + 60_000, NOW_MS + 5), strict=True):
        assert (await client.get(f"/v1/schedules/{position['scheduled']}"))["due_ms"] == due_ms
    assert len(await stored(client)) == 1


@with_client
async def test_many_records_become_several_batches(client: Client) -> None:
    await client.create("t", max_message_bytes=2_000)
    answer = await send(client, {"records": [{"text": "v" * 500, "partition": 0} for _ in range(20)]})
    assert [position["offset"] for position in answer["positions"]] == list(range(20))


@pytest.mark.parametrize(
    ("config", "wish", "status", "problem", "pointer"),
    [
        ({}, {"records": []}, 400, "invalid-content", "/records"),
        ({}, {"records": [{"valu": 1}]}, 400, "invalid-content", "/records/0/valu"),
        ({}, {"records": [{"value": 1}, {"value": 1, "text": "a"}]}, 400, "invalid-content", "/records/1"),
        ({}, {"records": [{"base64": "%"}]}, 400, "invalid-content", "/records/0/base64"),
        ({}, {"records": [{"after_ms": 1, "due_ms": 1}]}, 400, "invalid-content", "/records/0/after_ms"),
        ({"cleanup.policy": "compact"}, {"records": [{"key": "a"}, {"value": 1}]}, 400, "refused-record", "/records/1"),
        ({"max.message.bytes": 100}, {"records": [{"text": "v" * 99}]}, 413, "record-too-large", None),
        ({"message.timestamp.before.max.ms": 10}, {"records": [{"time_ms": 5}]}, 400, "refused-record", "/records/0"),
        ({}, b"{", 400, "invalid-content", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_published_is_said_so(
    config: dict[str, Any], wish: Any, status: int, problem: str, pointer: str | None
) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.create("t", 1, **config)
        reply = await client.ask("POST", ALL, wish)
        assert (reply.status, reply.problem, reply.json().get("pointer")) == (status, problem, pointer)
        assert await stored(client) == []

    run()


@with_client
async def test_wrong_types_and_places_of_parameters_are_refused(client: Client) -> None:
    await client.create("t")
    reply = await client.ask("POST", ALL, b"<a/>", "Content-Type: text/xml")
    assert (reply.status, reply.problem) == (415, "unsupported-media-type")
    reply = await client.ask("POST", f"{ALL}?key=k", {"records": [{"value": 1}]})
    assert (reply.status, reply.problem) == (400, "invalid-parameter")
    reply = await client.ask("POST", ALL, b"{\n", "Content-Type: application/x-ndjson")
    assert (reply.status, reply.json()["pointer"]) == (400, "/0")


ONCE = ("Content-Type: application/json", "Idempotency-Key: a1")


@with_client
async def test_the_same_key_publishes_once(client: Client) -> None:
    await client.create("t")
    wish = {"records": [{"value": 1}, {"value": 2}]}
    first = await send(client, wish, *ONCE)
    again = await send(client, wish, *ONCE)
    assert (first["repeated"], again["repeated"], again["positions"]) == (False, True, first["positions"])
    other = await client.ask("POST", ALL, {"records": [{"value": 3}]}, *ONCE)
    assert (other.status, other.problem) == (422, "idempotency-key-reused")
    assert len(await stored(client)) == 2
    long = await client.ask("POST", ALL, wish, ONCE[0], "Idempotency-Key: " + "k" * 256)
    assert (long.status, long.json()["parameter"]) == (400, "Idempotency-Key")


def test_a_key_is_known_after_a_restart_and_free_after_a_refusal() -> None:
    async def run(engine: MemoryEngine) -> None:
        client = Client(await Broker.open(engine, SteadyClock()))
        await client.create("t")
        wish = {"records": [{"value": 1}]}
        refused = await client.ask("POST", ALL, {"records": [{"partition": 9}]}, *ONCE)
        assert refused.status == 404
        first = await send(client, wish, *ONCE)
        client = Client(await Broker.open(engine, SteadyClock()))
        again = await send(client, wish, *ONCE)
        assert (again["repeated"], again["positions"]) == (True, first["positions"])
        assert len(await stored(client)) == 1

    with_engine(run)()


@with_client
async def test_two_requests_of_one_key_at_once_publish_once(client: Client) -> None:
    await client.create("t")
    content = {"records": [{"value": 1}]}
    answers = await asyncio.gather(*(send(client, content, *ONCE) for _ in range(3)))
    assert sorted(answer["repeated"] for answer in answers) == [False, True, True]
    assert len(await stored(client)) == 1


def test_old_keys_are_forgotten() -> None:
    async def run(engine: MemoryEngine) -> None:
        once = Once(engine, keys_max=3)
        client = Client(await Broker.open(engine, SteadyClock()))
        await client.create("t")
        client.broker.publications.once = once
        for number in range(10):
            await send(client, {"records": [{"value": number}]}, ONCE[0], f"Idempotency-Key: {number}")
        assert len(once._known) <= 4
        await once.load()
        assert len(once._known) <= 4
        assert all(entry.made_ms + LIFE_MS > NOW_MS for entry in once._known.values())

    with_engine(run)()
