"""aio-pika: its robust connection, confirms, and what it does when the broker comes back."""

import asyncio
from pathlib import Path

import aio_pika
import pytest

from tests.clients.amqp.serving import PATIENCE_S, Broker, serving

pytestmark = pytest.mark.conformance


def test_publish_and_consume(broker: Broker, name: str) -> None:
    async def run() -> None:
        connection = await aio_pika.connect_robust(broker.url)
        async with connection, asyncio.timeout(PATIENCE_S):
            channel = await connection.channel(on_return_raises=True)
            await channel.set_qos(prefetch_count=10)
            exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue(name, durable=True)
            await queue.bind(exchange, "a.*")
            sent = [
                exchange.publish(
                    aio_pika.Message(b"%d" % n, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, headers={"n": n}), "a.b"
                )
                for n in range(100)
            ]
            await asyncio.gather(*sent)
            found = []
            async with queue.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        found.append((int(message.body), message.headers["n"]))
                    if len(found) == 100:
                        break
            assert found == [(n, n) for n in range(100)]
            with pytest.raises(aio_pika.exceptions.DeliveryError):
                await exchange.publish(aio_pika.Message(b"x"), "nowhere", mandatory=True)
            with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed):
                await channel.declare_queue(name, durable=False)

    asyncio.run(run())


def test_transactions_and_replies(broker: Broker, name: str) -> None:
    async def run() -> None:
        connection = await aio_pika.connect(broker.url)
        async with connection, asyncio.timeout(PATIENCE_S):
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue(name)
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"in"), name)
            message = await queue.get(timeout=PATIENCE_S)
            assert message.body == b"in"
            await message.ack()

            served = await connection.channel()
            server = await aio_pika.patterns.RPC.create(served)

            async def double(*, value: int) -> int:
                return value * 2

            await server.register(f"{name}-rpc", double, auto_delete=True)
            assert await server.call(f"{name}-rpc", {"value": 21}) == 42

    asyncio.run(run())


def test_a_robust_connection_outlives_the_broker(tmp_path: Path) -> None:
    async def run(broker: Broker) -> None:
        connection = await aio_pika.connect_robust(broker.url, reconnect_interval=0.2)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q", durable=True)
            found: asyncio.Queue[bytes] = asyncio.Queue()

            async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                await message.ack()
                found.put_nowait(message.body)

            await queue.consume(take)
            await channel.default_exchange.publish(aio_pika.Message(b"before", delivery_mode=2), "q")
            async with asyncio.timeout(PATIENCE_S):
                assert await found.get() == b"before"
                await asyncio.to_thread(broker.stop)
                await asyncio.to_thread(broker.start)
                while True:  # It says nothing when it is back; so it is asked until it is.
                    try:
                        await channel.default_exchange.publish(aio_pika.Message(b"after", delivery_mode=2), "q")
                        break
                    except (aio_pika.exceptions.AMQPError, RuntimeError):
                        await asyncio.sleep(0.1)
                assert await found.get() == b"after"

    with serving(tmp_path / "data") as broker:
        asyncio.run(run(broker))
