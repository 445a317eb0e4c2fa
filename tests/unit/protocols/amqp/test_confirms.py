"""Confirms: what is said, and when; and garbage, with the real handlers."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.broker import Broker
from mainstem.protocols.amqp.codec.framing import METHOD, encode_frame
from mainstem.protocols.amqp.codec.methods import BY_NAME, encode_method
from tests.support.clients.amqp_client import Client, Connect, with_adapter


async def confirming(connect: Connect) -> Client:
    client = await connect().open()
    await client.ask("queue.declare", queue="q", durable=True)
    await client.ask("confirm.select")
    return client


@with_adapter
async def test_no_confirm_covers_what_is_not_durable(connect: Connect, broker: Broker) -> None:
    client = await confirming(connect)
    client.publish("q", b"1", delivery_mode=2)
    client.publish("q", b"2", delivery_mode=1)
    client.publish("nowhere", b"3", delivery_mode=2)
    told = [(frame["delivery_tag"], frame["multiple"]) for frame in client.frames]
    assert told == [(2, False), (3, False)], "these need not wait, and say nothing of the first"
    client.frames.clear()
    ack = await client.wait("basic.ack")
    assert (ack["delivery_tag"], ack["multiple"]) == (1, True)
    client.publish("q", b"4", delivery_mode=1)
    assert [(frame["delivery_tag"], frame["multiple"]) for frame in client.frames] == [(4, True)]


@with_adapter
async def test_a_pass_is_confirmed_in_one_go(connect: Connect, broker: Broker) -> None:
    client = await confirming(connect)
    one = encode_frame(METHOD, 1, encode_method("basic.publish", routing_key="q"))
    content = b"\x02\0\x01\0\0\0\x0f\0\x3c\0\0\0\0\0\0\0\0\0\x01\x10\0\x02\xce\x03\0\x01\0\0\0\x01x\xce"
    client.send_bytes((one + content) * 500)
    ack = await client.wait("basic.ack")
    assert (ack["delivery_tag"], ack["multiple"]) == (500, True)
    assert not client.frames


@with_adapter
async def test_a_channel_that_closes_has_settled_what_it_acknowledged(connect: Connect, broker: Broker) -> None:
    client = await confirming(connect)
    client.publish("q", b"1", delivery_mode=2)
    await client.wait("basic.ack")
    client.send("basic.get", queue="q")
    got = await client.wait("basic.get-ok")
    client.send("basic.ack", delivery_tag=got["delivery_tag"])
    await client.ask("channel.close")
    queue = broker.queues.find("default", "q")
    assert queue is not None
    assert (queue.ready_count, queue.unsettled_count) == (0, 0)


NAMES = sorted(BY_NAME)


@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.builds(
                lambda name, channel, tail: encode_frame(METHOD, channel, encode_method(name) + tail),
                st.sampled_from(NAMES),
                st.integers(0, 2),
                st.binary(max_size=4),
            ),
            st.builds(
                lambda kind, channel, payload: encode_frame(kind, channel, payload),
                st.sampled_from([1, 2, 3, 8, 9]),
                st.integers(0, 2),
                st.binary(max_size=40),
            ),
        ),
        max_size=12,
    )
)
def test_whatever_comes_the_broker_goes_on(pieces: list[bytes]) -> None:
    @with_adapter
    async def run(connect: Connect, broker: Broker) -> None:
        client = await connect().open()
        await client.ask("queue.declare", queue="q")
        with contextlib.suppress(AssertionError):
            for piece in pieces:
                client.send_bytes(piece)
                await client.turns(5)
        client.session.closed()
        other = await connect().open()
        await other.ask("queue.declare", queue="other")

    run()
