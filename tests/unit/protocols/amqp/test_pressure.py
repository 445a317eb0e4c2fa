"""A publisher that sends more than the disk takes waits; nothing it sent is dropped without a word."""

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.model.errors import StorageFull
from mainstem.protocols.amqp.codec.framing import METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method
from mainstem.protocols.amqp.handlers import connection as connections
from mainstem.storage.answer import Answer
from tests.support.clients.amqp_client import Client, Connect, with_adapter


def run_of(count: int, key: str = "q", exchange: str = "") -> bytes:
    """Messages that differ in their bodies alone, as one piece of input."""
    method = encode_frame(METHOD, 1, encode_method("basic.publish", exchange=exchange, routing_key=key))
    return b"".join(method + encode_content(1, b"\0\0", b"%06d" % number, 4_000) for number in range(count))


async def fan(client: Client, queues: int) -> list[str]:
    names = [f"q{number}" for number in range(queues)]
    await client.ask("exchange.declare", exchange="x", type="fanout")
    for name in names:
        await client.ask("queue.declare", queue=name, durable=True)
        await client.ask("queue.bind", queue=name, exchange="x")
    return names


async def count(client: Client, queue: str) -> int:
    answer: int = (await client.ask("queue.declare", queue=queue, passive=True))["message_count"]
    return answer


@with_adapter
async def test_a_run_for_many_queues_stops_where_it_would_be_too_much(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    names = await fan(client, 30)
    broker.intake.bytes_max = 50_000
    client.send_bytes(run_of(5_000, exchange="x"))
    assert client.session.input_wanted is None, "it is not read"
    assert broker.intake.drafted_bytes < 2_000_000, "and the rest of what was read waits too"
    assert [await count(client, name) for name in names] == [5_000] * 30


@with_adapter
async def test_a_pass_is_cut_by_time(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    names = await fan(client, 3)
    before, connections.PASS_SECONDS = connections.PASS_SECONDS, 0.0
    try:
        client.send_bytes(run_of(300, exchange="x") + run_of(200, key=names[0]))
        assert [await count(client, name) for name in names] == [500, 300, 300]
    finally:
        connections.PASS_SECONDS = before


@with_adapter
async def test_what_comes_while_the_disk_is_full_waits_for_it(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="q", durable=True)
    await client.ask("confirm.select")
    broker.queues.outbox.is_full = True
    client.send_bytes(run_of(20))
    assert (await client.wait("connection.blocked"))["reason"] == "low on disk"
    await client.turns()
    assert client.frames == [], "neither confirmed nor refused"
    broker.queues.outbox._try_again()
    await client.wait("connection.unblocked")
    confirm = await client.wait("basic.ack")
    assert (confirm["delivery_tag"], confirm["multiple"]) == (20, True)
    assert await count(client, "q") == 20


@with_adapter
async def test_a_refusal_without_confirms_ends_the_connection(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="q", durable=True)
    refuse_commits(broker)
    client.send_bytes(run_of(3))
    close = await client.wait("connection.close")
    assert close["reply_code"] == 506
    assert close["reply_text"].startswith("RESOURCE_ERROR - messages could not be stored")
    assert client.session.finished


@with_adapter
async def test_a_refusal_with_confirms_is_a_nack(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="q", durable=True)
    await client.ask("confirm.select")
    refuse_commits(broker)
    client.publish("q", b"x", delivery_mode=2)
    assert (await client.wait("basic.nack"))["delivery_tag"] == 1
    assert not client.session.finished


@with_adapter
async def test_who_only_acknowledges_is_read_while_publishers_wait(connect: Connect, broker: Broker) -> None:
    publisher, consumer = await connect().open(), await connect().open()
    await publisher.ask("queue.declare", queue="q", durable=True)
    broker.intake.bytes_max = -1
    publisher.send_bytes(run_of(3))
    assert publisher.session.input_wanted is None
    await consumer.ask("queue.declare", queue="q", passive=True)
    broker.intake.bytes_max = 1 << 20
    assert await count(publisher, "q") == 3


@with_adapter
async def test_messages_that_an_exchange_keeps_for_a_while_count_too(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    arguments = {"x-delayed-type": ("longstr", b"direct")}
    await client.ask("exchange.declare", exchange="later", type="x-delayed-message", arguments=arguments)
    broker.intake.bytes_max = 20_000
    for _ in range(100):
        client.publish("q", bytes(1_000), exchange="later", headers={"x-delay": ("signedint", 60_000)})
    assert client.session.input_wanted is None
    assert broker.intake.drafted_bytes < 50_000


@with_adapter
async def test_a_broker_that_goes_does_not_wait_for_room_on_the_disk(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="q", durable=True)
    broker.queues.outbox.is_full = True
    client.send_bytes(run_of(20))
    await client.wait("connection.blocked")
    client.session.drain()
    client.take()
    await client.wait("connection.unblocked")
    assert (await client.wait("connection.close"))["reply_code"] == 320
    broker.queues.outbox._try_again()
    assert client.session.finished


def refuse_commits(broker: Broker) -> None:
    """As a disk that has just become full."""
    outbox = broker.queues.outbox

    class Full:
        def __init__(self, engine: Any) -> None:
            self._engine = engine

        def __getattr__(self, name: str) -> Any:
            return getattr(self._engine, name)

        def commit(self, commits: Any) -> Answer[Any]:
            if any(commit.appends for commit in commits):
                return Answer.of([StorageFull("disk use is above the hard mark") for _ in commits])
            return self._engine.commit(commits)  # type: ignore[no-any-return]

    outbox._engine = Full(outbox._engine)  # type: ignore[assignment]
