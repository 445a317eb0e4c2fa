"""The life of a connection: handshake, heartbeats, ends, and what it holds back."""

from itertools import pairwise

import pytest

from mainstem.broker.broker import Broker
from mainstem.protocols.amqp.adapter import SettingsUnusable, check_listening
from mainstem.protocols.amqp.session import AmqpSettings
from tests.support.clients.amqp_client import GUEST, Connect, with_adapter


@with_adapter
async def test_the_server_says_what_it_can(connect: Connect, broker: Broker) -> None:
    client = connect()
    start = await client.greet()
    assert (start["version_major"], start["version_minor"]) == (0, 9)
    assert start["mechanisms"] == b"AMQPLAIN PLAIN ANONYMOUS"
    capabilities = start["server_properties"]["capabilities"].value
    assert {name for name, field in capabilities.items() if field.value} == {
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    }


@pytest.mark.parametrize("header", [b"AMQP\x03\x01\x00\x00", b"GET / HT", b"\x16\x03\x01\x00\x05\x01\x00\x00"])
def test_another_protocol_is_told_which_one_this_is(header: bytes) -> None:
    @with_adapter
    async def run(connect: Connect, broker: Broker) -> None:
        client = connect()
        client.send_bytes(header)
        assert client.session.finished
        assert bytes(client.output) == b"AMQP\x00\x00\x09\x01"

    run()


@pytest.mark.parametrize(
    ("tuning", "text"),
    [
        ({"frame_max": 100}, "negotiated frame_max = 100 is lower than the minimum allowed value (4096)"),
        ({"frame_max": 0}, "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"),
        ({"channel_max": 3000}, "negotiated channel_max = 3000 is higher than the maximum allowed value (2047)"),
    ],
)
def test_sizes_out_of_range_are_refused(tuning: dict[str, int], text: str) -> None:
    @with_adapter
    async def run(connect: Connect, broker: Broker) -> None:
        client = connect()
        await client.greet(**tuning)
        close = await client.wait("connection.close")
        assert (close["reply_code"], close["reply_text"]) == (530, f"NOT_ALLOWED - {text}")
        assert client.session.finished

    run()


@with_adapter
async def test_amqplain_and_wrong_passwords(connect: Connect, broker: Broker) -> None:
    for response, is_right in ((b"guest", True), (b"wrong", False)):
        client = connect()
        client.send_bytes(b"AMQP\x00\x00\x09\x01")
        await client.wait("connection.start")
        table = b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS" + len(response).to_bytes(4, "big") + response
        client.send("connection.start-ok", 0, mechanism="AMQPLAIN", response=table, locale="en_US")
        if is_right:
            await client.wait("connection.tune")
        else:
            assert client.session.finished
            assert not client.frames, "who did not say that it understands is told nothing"


@with_adapter
async def test_guest_is_known_on_this_machine_only(connect: Connect, broker: Broker) -> None:
    client = connect("192.0.2.7")
    client.send_bytes(b"AMQP\x00\x00\x09\x01")
    await client.wait("connection.start")
    client.send("connection.start-ok", 0, mechanism="PLAIN", response=GUEST, locale="en_US")
    assert client.session.finished
    await connect("::1").open()


@with_adapter
async def test_methods_out_of_turn_end_the_connection(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    client.send("channel.open")
    close = await client.wait("connection.close")
    assert (close["reply_code"], close["reply_text"]) == (504, "CHANNEL_ERROR - second 'channel.open' seen")
    assert (close["class_id"], close["method_id"]) == (20, 10)
    client = await connect().open()
    client.send("basic.get", 2, queue="q")
    assert (await client.wait("connection.close"))["reply_text"] == "CHANNEL_ERROR - expected 'channel.open'"
    client = await connect().open()
    client.send("connection.start-ok", 0, mechanism="PLAIN", response=GUEST, locale="en_US")
    assert (await client.wait("connection.close"))["reply_code"] == 504


@with_adapter
async def test_there_are_no_more_channels_than_agreed(connect: Connect, broker: Broker) -> None:
    client = await connect().open(channel_max=2)
    await client.ask("channel.open", 7)
    client.send("channel.open", 3)
    close = await client.wait("connection.close")
    assert close["reply_text"] == (
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


@with_adapter
async def test_heartbeats_are_sent_and_missed(connect: Connect, broker: Broker) -> None:
    client = await connect().open(heartbeat=4)
    now = 100.0
    while not client.session.finished and now < 120:
        now += 1
        client.session.time_passed(now)
        client.take()
    assert client.heartbeats >= 3
    assert 108 <= now <= 113
    alive = await connect().open(heartbeat=4)
    for now in range(100, 140):
        if now % 4 == 0:
            alive.send_bytes(b"\x08\0\0\0\0\0\0\xce")
        alive.session.time_passed(float(now))
        alive.take()
    assert not alive.session.finished


@pytest.mark.parametrize("interval", [2, 4, 5, 10, 60])
@pytest.mark.parametrize("late", [0.0, 0.05])
def test_heartbeats_are_sent_every_half_interval(interval: int, late: float) -> None:
    @with_adapter
    async def scenario(connect: Connect, broker: Broker) -> None:
        client = await connect().open(heartbeat=interval)
        sent_at: list[float] = []
        now = 100.0
        while now < 100 + 6 * interval:
            now += 1 + late
            client.send_bytes(b"\x08\0\0\0\0\0\0\xce")
            before = client.heartbeats
            client.session.time_passed(now)
            client.take()
            sent_at += [now] * (client.heartbeats - before)
        gaps = [after - before for before, after in pairwise(sent_at)]
        assert max(gaps) <= max(interval / 2, 1) + 4 * late
        assert min(gaps) >= max(interval / 2 - 1 - late, 1)

    scenario()


@with_adapter
async def test_who_is_spoken_to_needs_no_heartbeats(connect: Connect, broker: Broker) -> None:
    client = await connect().open(heartbeat=10)
    for now in range(100, 140):
        await client.ask("basic.qos")
        client.session.time_passed(float(now))
        client.take()
    assert not client.heartbeats


@with_adapter(handshake_timeout_ms=3_000)
async def test_a_handshake_takes_only_so_long(connect: Connect, broker: Broker) -> None:
    client = connect()
    client.session.time_passed(10.0)
    client.session.time_passed(12.0)
    assert not client.session.finished
    client.session.time_passed(13.0)
    assert client.session.finished


@with_adapter
async def test_a_broker_that_goes_says_so(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    client.session.drain()
    client.take()
    close = await client.wait("connection.close")
    assert (close["reply_code"], close["reply_text"]) == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
    )
    assert client.session.finished


@with_adapter
async def test_publishers_are_blocked_and_let_go(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="q", durable=True)
    broker.queues.outbox.is_full = True
    client.publish("q", b"x", delivery_mode=2)
    assert (await client.wait("connection.blocked"))["reason"] == "low on disk"
    assert client.session.input_wanted is None
    ledger = broker.queues.outbox._engine.ledger
    ledger.full = True
    broker.queues.outbox._try_again()
    assert client.session.input_wanted is None, "who was let go would be refused at once"
    ledger.full = False
    broker.queues.outbox._try_again()
    await client.wait("connection.unblocked")
    await client.ask("queue.declare", queue="q", passive=True)


@with_adapter
async def test_who_does_not_read_is_not_delivered_to(connect: Connect, broker: Broker) -> None:
    client = await connect().open()
    await client.ask("queue.declare", queue="q")
    for _ in range(100):
        client.publish("q", bytes(100_000))
    await client.ask("queue.declare", queue="q", passive=True)
    client.send("basic.consume", queue="q", consumer_tag="c", no_ack=True)
    await client.wait("basic.consume-ok")
    client.is_reading = False
    await client.turns(100)
    assert client.session.output_bytes < 2_000_000, "what nobody takes stays in the queue"
    client.session.output_paused()
    said = client.session.output_bytes
    await client.turns(50)
    assert client.session.output_bytes == said
    client.session.output_resumed()
    client.is_reading = True
    while len(client.frames) < 100:
        await client.turns(5)
    assert all(len(frame.body) == 100_000 for frame in client.frames)


def test_beyond_this_machine_somebody_must_be_known() -> None:
    check_listening(AmqpSettings(), ["127.0.0.1", "::1", "localhost"])
    with pytest.raises(SettingsUnusable, match=r"amqp\.user"):
        check_listening(AmqpSettings(), ["0.0.0.0"])
    check_listening(AmqpSettings(anybody_from_anywhere=True), ["0.0.0.0"])
    with pytest.raises(SettingsUnusable, match="password_file"):
        check_listening(AmqpSettings(user="u"), ["0.0.0.0"])
