"""Operations of AMQP are counted, messages by the run."""

from mainstem.broker.broker import Broker
from mainstem.protocols.amqp.adapter import AmqpAdapter
from mainstem.protocols.amqp.session import AmqpSettings
from tests.support.clients.amqp_client import Client, Operations
from tests.support.worlds.brokers import with_broker


@with_broker
async def test_messages_and_methods_are_counted(broker: Broker) -> None:
    operations = Operations()
    client = await Client(AmqpAdapter(AmqpSettings(), broker, operations)).open()
    await client.ask("queue.declare", queue="q")
    for _ in range(3):
        client.publish("q", b"v")
    await client.ask("basic.consume", queue="q", consumer_tag="c")
    tags = [(await client.wait("basic.deliver"))["delivery_tag"] for _ in range(3)]
    client.send("basic.ack", delivery_tag=tags[1], multiple=True)
    client.send("basic.reject", delivery_tag=tags[2], requeue=False)
    await client.turns()
    counted = {name: meter.requests for name, meter in operations.meters.items() if meter.requests}
    assert counted == {
        "basic.publish": 3, "basic.deliver": 3, "basic.ack": 2, "basic.reject": 1, "queue.declare": 1,
        "basic.consume": 1,
    }  # fmt: skip
