"""Consuming: prefetch, acknowledgements, priorities, exclusive and single consumers, cancellation, streams."""

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from tests.clients.amqp.serving import Broker, depth, serving, take, until

pytestmark = pytest.mark.conformance


class Inbox:
    """What one consumer was given."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:
        self.bodies: list[bytes] = []
        self.tags: list[int] = []
        self.redelivered: list[bool] = []
        self.headers: list[Any] = []
        self.channel = channel
        self.tag = channel.basic_consume(queue, self._take, **options)

    def _take(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        self.tags.append(method.delivery_tag)
        self.redelivered.append(method.redelivered)
        self.headers.append(properties.headers)

    def wait(self, count: int) -> None:
        until(self.channel, lambda: len(self.bodies) >= count)

    def settle(self) -> None:
        """Give the broker time to send what it should not."""
        for _ in range(3):
            self.channel.connection.process_data_events(0.05)


def fill(channel: BlockingChannel, queue: str, count: int) -> None:
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))


def test_prefetch_limits_what_a_consumer_has(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    fill(channel, name, 10)
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, name)
    inbox.wait(3)
    inbox.settle()
    assert inbox.bodies == [b"0", b"1", b"2"]
    channel.basic_ack(inbox.tags[1])
    inbox.wait(4)
    inbox.settle()
    assert len(inbox.bodies) == 4
    channel.basic_ack(inbox.tags[3], multiple=True)
    inbox.wait(7)
    inbox.settle()
    assert len(inbox.bodies) == 7


def test_a_limit_for_all_consumers_of_a_channel(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.queue_declare(f"{name}-2")
    fill(channel, name, 10)
    fill(channel, f"{name}-2", 10)
    channel.basic_qos(prefetch_count=4, global_qos=True)
    inboxes = [Inbox(channel, name), Inbox(channel, name), Inbox(channel, f"{name}-2")]

    def had() -> int:
        return sum(len(inbox.bodies) for inbox in inboxes)

    until(channel, lambda: had() >= 4)
    inboxes[0].settle()
    assert had() == 4
    channel.basic_ack(0, multiple=True)
    until(channel, lambda: had() >= 8)
    inboxes[0].settle()
    assert had() == 8


def test_messages_that_are_not_acknowledged_come_again_in_their_place(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.queue_declare(name, durable=True)
        fill(channel, name, 4)
        inbox = Inbox(channel, name)
        inbox.wait(4)
        channel.basic_ack(inbox.tags[1])
    with broker.channel() as channel:
        again = take(channel, name, 3)
        assert [body for _, _, body in again] == [b"0", b"2", b"3"]
        assert all(method.redelivered for method, _, _ in again)


def test_nack_and_reject(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(f"{name}-dead")
    channel.queue_declare(name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"})
    fill(channel, name, 4)
    inbox = Inbox(channel, name)
    inbox.wait(4)
    channel.basic_nack(inbox.tags[1], multiple=True, requeue=True)
    inbox.wait(6)
    assert inbox.bodies[4:] == [b"0", b"1"]
    assert inbox.redelivered == [False] * 4 + [True] * 2
    channel.basic_reject(inbox.tags[2], requeue=False)
    channel.basic_nack(inbox.tags[3], requeue=False)
    dead = Inbox(channel, f"{name}-dead", auto_ack=True)
    dead.wait(2)
    assert dead.bodies == [b"2", b"3"]
    assert [headers["x-death"][0]["reason"] for headers in dead.headers] == ["rejected"] * 2


def test_an_unknown_delivery_tag_closes_the_channel(broker: Broker, name: str) -> None:
    for call in ("basic_ack", "basic_nack", "basic_reject"):
        with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
            getattr(channel, call)(42)
            channel.queue_declare(name)
        assert (error.value.reply_code, error.value.reply_text) == (
            406,
            "PRECONDITION_FAILED - unknown delivery tag 42",
        )


def test_recover_gives_everything_back(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    fill(channel, name, 3)
    inbox = Inbox(channel, name)
    inbox.wait(3)
    channel.basic_recover(requeue=True)
    inbox.wait(6)
    assert inbox.bodies[3:] == [b"0", b"1", b"2"]
    assert inbox.redelivered[3:] == [True] * 3


def test_a_quorum_queue_counts_and_gives_up(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(f"{name}-dead")
    channel.queue_declare(
        name,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{name}-dead",
        },
    )
    fill(channel, name, 1)
    inbox = Inbox(channel, name)
    for attempt in range(3):
        inbox.wait(attempt + 1)
        channel.basic_reject(inbox.tags[attempt], requeue=True)
    assert [(headers or {}).get("x-delivery-count") for headers in inbox.headers] == [None, 1, 2]
    dead = Inbox(channel, f"{name}-dead", auto_ack=True)
    dead.wait(1)
    assert dead.headers[0]["x-death"][0]["reason"] == "delivery_limit"


def test_a_quorum_queue_gives_out_two_urgent_messages_for_another(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    for number, priority in enumerate([None, 4, 1, 5, 9, 255, 6]):
        channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2, priority=priority))
    assert depth(channel, name) == 7
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, name)
    for number in range(1, 8):
        inbox.wait(number)
        channel.basic_ack(inbox.tags[-1])
    assert inbox.bodies == [b"3", b"4", b"0", b"5", b"6", b"1", b"2"]


def test_consumers_share_in_turn_and_by_priority(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    low, high = Inbox(channel, name, arguments={"x-priority": -1}), Inbox(channel, name, arguments={"x-priority": 10})
    fill(channel, name, 6)
    high.wait(6)
    assert not low.bodies
    channel.basic_cancel(high.tag)
    other = Inbox(channel, name, arguments={"x-priority": -1})
    fill(channel, name, 6)
    low.wait(3)
    other.wait(3)
    assert sorted(low.bodies + other.bodies) == [b"%d" % n for n in range(6)]


def test_an_exclusive_consumer_has_the_queue_to_itself(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.queue_declare(name, durable=True)
        channel.basic_consume(name, lambda *_: None, exclusive=True)
        with broker.channel() as other, pytest.raises(ChannelClosedByBroker) as error:
            other.basic_consume(name, lambda *_: None)
        assert (error.value.reply_code, error.value.reply_text) == (
            403,
            f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use",
        )


def test_a_single_active_consumer_is_followed_by_the_next(broker: Broker, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-single-active-consumer": True})
    with broker.channel() as first_channel:
        first = Inbox(first_channel, name)
        second = Inbox(channel, name)
        fill(channel, name, 3)
        first.wait(3)
        assert not second.bodies
    second.wait(3)
    assert second.bodies == first.bodies


def test_a_consumer_is_told_when_its_queue_goes(channel: BlockingChannel, broker: Broker, name: str) -> None:
    channel.queue_declare(name)
    told: list[str] = []
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    tag = channel.basic_consume(name, lambda *_: None)
    with broker.channel() as other:
        other.queue_delete(name)
    until(channel, lambda: told == [tag])


def test_a_consumer_tag_is_used_once(broker: Broker, name: str) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare(name)
    channel.basic_consume(name, lambda *_: None, consumer_tag="t")
    impl = channel._impl
    impl._consumers.clear()
    with pytest.raises(ConnectionClosedByBroker) as error:
        impl.basic_consume(name, lambda *_: None, consumer_tag="t")
        for _ in range(100):
            connection.process_data_events(0.1)
    assert (error.value.reply_code, error.value.reply_text) == (
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 't'",
    )


def test_a_delivery_that_is_never_acknowledged_closes_the_channel(broker: Broker, name: str) -> None:
    reasons: list[Any] = []
    with broker.channel() as channel:
        channel.queue_declare(name, durable=True)
        fill(channel, name, 1)
        channel._impl.add_on_close_callback(lambda _, reason: reasons.append(reason))
        channel.basic_consume(name, lambda *_: None, arguments={"x-consumer-timeout": 1_000})
        until(channel, lambda: bool(reasons))
    assert reasons[0].reply_code == 406
    assert reasons[0].reply_text.startswith(
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms."
    )
    with broker.channel() as channel:
        assert depth(channel, name) == 1


def test_streams_are_read_from_anywhere_and_keep_their_messages(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        fill(channel, name, 5)
        channel.basic_qos(prefetch_count=10)
        for start, expected in (("first", range(5)), (2, range(2, 5))):
            inbox = Inbox(channel, name, arguments={"x-stream-offset": start})
            inbox.wait(len(expected))
            inbox.settle()
            assert inbox.bodies == [b"%d" % number for number in expected]
            assert [headers["x-stream-offset"] for headers in inbox.headers] == list(expected)
            channel.basic_ack(inbox.tags[-1], multiple=True)
            channel.basic_cancel(inbox.tag)
        following = Inbox(channel, name, arguments={"x-stream-offset": "next"})
        following.settle()
        channel.basic_publish("", name, b"new")
        following.wait(1)
        assert following.bodies == [b"new"]
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.basic_consume(name, lambda *_: None)
    assert error.value.reply_text == (
        f"PRECONDITION_FAILED - consumer prefetch count is not set for stream queue '{name}' in vhost '/'"
    )


def test_streams_can_be_filtered(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for value in ("red", "blue", "red", None):
        headers = {"x-stream-filter-value": value} if value else None
        channel.basic_publish("", name, str(value).encode(), pika.BasicProperties(headers=headers))
    channel.basic_qos(prefetch_count=10)
    arguments = {"x-stream-offset": "first", "x-stream-filter": "red"}
    reds = Inbox(channel, name, arguments=arguments)
    reds.wait(2)
    loose = Inbox(channel, name, arguments=arguments | {"x-stream-match-unfiltered": True})
    loose.wait(3)
    assert (reds.bodies, loose.bodies) == ([b"red", b"red"], [b"red", b"red", b"None"])


def test_durable_things_outlive_the_broker_and_others_do_not(tmp_path: Any, name: str) -> None:
    with serving(tmp_path / "data") as broker:
        with broker.channel() as channel:
            channel.exchange_declare("lasting", "direct", durable=True)
            channel.exchange_declare("passing", "direct")
            channel.queue_declare("lasting", durable=True)
            channel.queue_declare("passing")
            channel.queue_bind("lasting", "lasting", "k")
            fill(channel, "lasting", 5)
            method, _, _ = channel.basic_get("lasting")
            channel.basic_ack(method.delivery_tag)
        broker.stop()
        broker.start()
        with broker.channel() as channel:
            channel.basic_publish("lasting", "k", b"after")
            bodies = [body for _, _, body in take(channel, "lasting", 5)]
            assert bodies == [b"1", b"2", b"3", b"4", b"after"]
        for declare in ("queue_declare", "exchange_declare"):
            with broker.channel() as channel, pytest.raises(ChannelClosedByBroker):
                getattr(channel, declare)("passing", passive=True)


def test_a_selector_chooses_by_headers_and_properties(broker: Broker, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True)
    big = Inbox(channel, name, arguments={"x-mainstem-selector": "amount > 100 AND properties.type = 'order'"})
    for amount, kind in ((50, "order"), (200, "order"), (300, "refund"), (400, "order")):
        properties = pika.BasicProperties(headers={"amount": amount}, type=kind)
        channel.basic_publish("", name, str(amount).encode(), properties)
    big.wait(2)
    big.settle()
    assert big.bodies == [b"200", b"400"]
    rest = Inbox(channel, name)
    rest.wait(2)
    assert rest.bodies == [b"50", b"300"]
    for wrong in ("amount >", 5):
        with broker.connect() as connection:
            other = connection.channel()
            with pytest.raises(ChannelClosedByBroker, match="invalid arg 'x-mainstem-selector'") as caught:
                other.basic_consume(name, lambda *_: None, arguments={"x-mainstem-selector": wrong})
            assert caught.value.reply_code == 406


def test_a_queue_with_one_active_consumer_has_no_exclusive_ones(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-single-active-consumer": True})
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.basic_consume(name, print, exclusive=True)
    assert error.value.reply_code == 403
    assert error.value.reply_text == f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use"


def test_consumers_of_a_stream_are_not_in_each_others_way(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    fill(channel, name, 1)
    channel.basic_qos(prefetch_count=1)
    for _ in range(2):
        inbox = Inbox(channel, name, exclusive=True, arguments={"x-stream-offset": "first"})
        inbox.wait(1)
        assert inbox.bodies == [b"0"]
