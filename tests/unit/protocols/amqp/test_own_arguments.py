"""Arguments and policies that RabbitMQ does not know: retries, leases, ordering."""

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.queues import Queue, RetryPolicy
from mainstem.coordination.administration.entries import Policy
from mainstem.protocols.amqp.codec.field_table import Field
from tests.support.clients.amqp_client import Connect, with_adapter


def found(broker: Broker, name: str) -> Queue:
    queue = broker.queues.find(DEFAULT_NAMESPACE, name)
    assert queue is not None
    return queue


@with_adapter
async def test_a_queue_is_declared_with_retries_a_lease_and_an_ordering(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    arguments = {
        "x-mainstem-retry": Field("longstr", b"fixed delay_ms=50 retries_max=2"),
        "x-mainstem-lease-ms": Field("signedint", 60_000),
        "x-mainstem-ordering": Field("longstr", b"failover"),
    }
    for _ in range(2):
        await client.ask("queue.declare", queue="q", durable=True, arguments=arguments)
    queue = found(broker, "q")
    assert queue.properties.retry == RetryPolicy(delay_ms=50, retries_max=2)
    assert (queue.properties.lease_ms, queue.ordering) == (60_000, "failover")
    client.publish("q", b"x")
    await client.ask("basic.consume", queue="q", consumer_tag="c")
    for number in range(3):
        delivery = await client.wait("basic.deliver")
        assert delivery["redelivered"] == (number > 0)
        counts = {name: field.value for name, field in delivery.properties.get("headers", {}).items()}
        assert counts == ({"x-acquired-count": number, "x-delivery-count": number} if number else {})
        client.send("basic.reject", delivery_tag=delivery["delivery_tag"], requeue=True)
        await client.turns()
        assert not client.frames, "it rests"
    await client.turns()
    assert (queue.ready_count, queue.unsettled_count) == (0, 0)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("x-mainstem-retry", Field("longstr", b"often")),
        ("x-mainstem-retry", Field("signedint", 1)),
        ("x-mainstem-lease-ms", Field("signedint", 0)),
        ("x-mainstem-ordering", Field("longstr", b"any")),
    ],
)
@pytest.mark.parametrize("kind", [b"classic", b"stream"])
def test_what_cannot_be_is_refused(name: str, field: Field, kind: bytes) -> None:
    @with_adapter
    async def scenario(connect: Connect, broker: Broker) -> None:
        client = await connect().open()
        arguments = {name: field, "x-queue-type": Field("longstr", kind)}
        client.send("queue.declare", queue="q", durable=True, arguments=arguments)
        close = await client.wait("channel.close")
        assert close["reply_code"] == 406
        assert name in close["reply_text"]

    scenario()


@with_adapter
async def test_a_policy_says_the_same_and_another_ordering_waits_until_nobody_is_attached(
    connect: Connect, broker: Broker
) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="q", durable=True)
    await client.ask("basic.consume", queue="q", consumer_tag="c")
    definition = {"mainstem-retry": "rocketmq", "mainstem-lease-ms": 5_000, "mainstem-ordering": "exclusive"}
    await broker.policies.put(Policy(DEFAULT_NAMESPACE, "p", pattern="^q", definition=definition, apply_to="queues"))
    queue = found(broker, "q")
    assert queue.rules.retry == RetryPolicy(kind="rocketmq")
    assert (queue.policy.lease_ms, queue.ordering) == (5_000, "shared")
    await client.ask("basic.cancel", consumer_tag="c")
    assert queue.ordering == "exclusive"
    await client.ask("basic.consume", queue="q", consumer_tag="c")
    client.send("basic.consume", queue="q", consumer_tag="d")
    assert (await client.wait("channel.close"))["reply_code"] == 403
