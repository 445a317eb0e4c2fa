"""Requests over HTTP, answered by consumers of the topic or queue."""

import asyncio
from typing import Any

from mainstem.broker.queues import Message, QueueProperties, decode_headers, encode_headers
from mainstem.protocols.amqp.handlers.dialect import introduce
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.clients.http_client import NOW_MS, Client, with_client


async def _asked(client: Client, topic: str) -> dict[str, bytes]:
    """The headers of the request, once it is there."""
    async with asyncio.timeout(10):
        while True:
            found = (await client.get(f"/v1/topics/{topic}/records?newest=1"))["records"]
            if found:
                return {name: text.encode() for name, text in found[0]["headers"].items()}
            await asyncio.sleep(0)


def _ask(client: Client, path: str, content: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(Client(client.broker, client.operations).ask("POST", path, content))


@with_client
async def test_a_request_is_answered_by_a_record(client: Client) -> None:
    await client.create("prices")
    asking = _ask(client, "/v1/topics/prices/request", {"key": "k", "value": {"sku": 1}, "headers": {"a": "b"}})
    headers = await _asked(client, "prices")
    assert headers["a"] == b"b"
    other = Record(0, NOW_MS, None, b"no", [("correlation-id", b"somebody else's")])
    reply = Record(1, NOW_MS, b"k", b'{"price": 20}', [("correlation-id", headers["correlation-id"]), ("c", b"d")])
    await client.publish_batch(headers["reply-to"].decode(), encode_batch([other, reply]))
    answer = await asking
    assert answer.status == 200
    assert answer.json()["value"] == {"price": 20}
    assert answer.json()["headers"]["c"] == "d"
    queue = client.broker.queues.find("default", headers["reply-to"].decode())
    assert queue is not None
    assert queue.ready_count == 0


@with_client
async def test_a_worker_of_amqp_is_asked_and_answers_in_its_own_words(client: Client) -> None:
    dialect = introduce(client.broker)
    await client.broker.queues.declare("default", "work", QueueProperties())
    asking = _ask(client, "/v1/topics/work/request", {"text": "ping"})
    headers = await _asked(client, "work")
    queue = client.broker.queues.find("default", "work")
    assert queue is not None
    taken: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
    queue.get_one(taken.set_result)
    message = await taken
    assert message is not None
    properties = dialect.open(message).properties
    assert properties["reply_to"].encode() == headers["reply-to"]
    sealed = dialect.seal(
        type(dialect.open(message).address)("", (properties["reply_to"],)),
        {"correlation_id": properties["correlation_id"]},
    )
    assert dict(decode_headers(sealed.headers))["amqp.correlation-id"]
    target = client.broker.queues.find("default", properties["reply_to"])
    assert target is not None
    client.broker.queues.outbox.put([target], sealed.headers, b"pong")
    answer = await asking
    assert answer.json()["text"] == "pong"


@with_client
async def test_silence_is_an_answer(client: Client) -> None:
    await client.create("prices")
    reply = await client.ask("POST", "/v1/topics/prices/request?timeout_ms=1", {"value": 1})
    assert (reply.status, reply.problem) == (504, "no-reply")
    assert (await client.ask("POST", "/v1/topics/none/request", {"value": 1})).problem == "unknown-topic"
    assert (await client.ask("POST", "/v1/topics/prices/request", {"value": 1, "text": "2"})).status == 400


@with_client
async def test_a_reply_queue_that_was_deleted_is_made_again(client: Client) -> None:
    await client.create("prices")
    await client.ask("POST", "/v1/topics/prices/request?timeout_ms=1", {"value": 1})
    first = await _asked(client, "prices")
    queue = client.broker.queues.find("default", first["reply-to"].decode())
    assert queue is not None
    client.broker.queues.outbox.put([queue], encode_headers([]), b"a reply to nothing")
    await client.broker.queues.outbox.wait_durable()
    await client.broker.queues.delete(queue)
    await client.ask("POST", "/v1/topics/prices/request?timeout_ms=200", {"value": 2})
    assert (await _asked(client, "prices"))["reply-to"] != first["reply-to"]
