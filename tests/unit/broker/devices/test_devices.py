"""Devices over a simulated disk, crashes included: what is published and by whom, what waits, what is given out twice."""

import pytest

from mainstem.broker.devices import (
    DeviceMessage,
    DeviceSession,
    DeviceSpace,
    Publication,
    SubscriptionEntry,
    TopicRule,
    WillEntry,
)
from mainstem.broker.devices.sessions import Group
from mainstem.broker.queues import Queue, encode_headers
from mainstem.broker.records.publication import NewRecord
from tests.support.worlds.queue_world import Holder, World

KEPT_S = 1_000


class Phone:
    """A receiver that keeps what it is given."""

    def __init__(self, world: World, client_id: str, *, kept: bool = False, will: WillEntry | None = None) -> None:
        self.world = world
        self.heard: list[tuple[str, bytes, int]] = []
        self.holders: list[tuple[Queue, Holder]] = []
        self.space: DeviceSpace = world.do(world.broker.devices.open("default"))
        expiry_s = KEPT_S if kept else 0
        self.session: DeviceSession
        self.session, self.was_there = world.do(
            self.space.begin(client_id, self, "user", clean=not kept, expiry_s=expiry_s, will=will)
        )
        self.space.resume(self.session)
        world.quiet()

    def subscribe(self, *filters: str, qos: int = 1, no_local: bool = False) -> None:
        entries = [SubscriptionEntry(text, qos, no_local) for text in filters]
        self.world.do(self.space.subscribe(self.session, entries))
        self.world.quiet()

    def publish(self, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False) -> None:
        headers = encode_headers([("mqtt.topic", topic.encode()), ("mqtt.qos", b"%d" % qos), ("mqtt.client", b"x")])
        publication = Publication(topic, payload, qos, retain, headers, publisher=self.session)
        self.world.in_loop(lambda: self.space.publish(publication))

    def values(self) -> list[bytes]:
        """Of messages that came by a queue."""
        return [value for _, holder in self.holders for value in holder.values()]

    def leave(self, *, with_will: bool = False) -> None:
        def go() -> None:
            for queue, holder in self.holders:
                queue.detach(holder)
                queue.give_back(holder.held)
            self.space.leave(self.session, self, with_will=with_will)

        self.world.in_loop(go)
        self.world.quiet()

    # Receiver

    def push(self, message: DeviceMessage, qos: int, retain: bool, identifiers: tuple[int, ...]) -> None:
        self.heard.append((message.topic, bytes(message.payload), qos))

    def attach(self, queue: Queue, group: Group | None) -> None:
        holder = Holder()
        self.holders.append((queue, holder))
        queue.attach(holder)

    def detach(self, queue: Queue) -> None: ...

    def taken_over(self) -> None:
        self.space.leave(self.session, self, with_will=True)

    def ended_by_administrator(self) -> None: ...


def write(world: World, *records: NewRecord, topic: str = "mqtt") -> None:
    """As Kafka's producers, Spark or AMQP do."""
    world.do(world.broker.publications.publish(world.broker.topics.get(topic), records))
    world.quiet()


def test_a_message_is_given_out_once_to_all_who_want_it(world: World) -> None:
    listener, kept, sender = Phone(world, "listener"), Phone(world, "kept", kept=True), Phone(world, "sender")
    listener.subscribe("a/+", "a/#", qos=2)
    kept.subscribe("a/b")
    for number in range(20):
        sender.publish("a/b", b"%d" % number, number % 3)
        if number % 4 == 0:
            world.quiet()
    world.quiet()
    expected = [("a/b", b"%d" % number, number % 3) for number in range(20)]
    assert listener.heard == expected
    assert kept.values() == [b"%d" % number for number in range(20) if number % 3]
    assert [value for _, value, qos in kept.heard if not qos] == [b"%d" % number for number in range(0, 20, 3)]


def test_records_of_others_and_messages_of_devices_come_once_each(world: World) -> None:
    listener, sender = Phone(world, "listener"), Phone(world, "sender")
    listener.subscribe("#")
    for number in range(10):
        sender.publish("same", b"ours %d" % number)
        write(world, NewRecord(b"same", b"theirs %d" % number), NewRecord(b"k", b"named", [("mqtt.topic", b"other")]))
        sender.publish("same", b"ours too %d" % number)
    world.quiet()
    heard = [value for topic, value, _ in listener.heard if topic == "same"]
    expected = [b"%s %d" % (who, number) for number in range(10) for who in (b"ours", b"theirs", b"ours too")]
    assert sorted(heard) == sorted(expected)
    assert [topic for topic, _, _ in listener.heard].count("other") == 10


@pytest.mark.parametrize("waits", [True, False])
def test_a_session_and_what_waits_for_it_survive_a_crash(world: World, waits: bool) -> None:
    kept = Phone(world, "kept", kept=True)
    kept.subscribe("a/#")
    if waits:
        kept.leave()
    sender = Phone(world, "sender")
    for number in range(12):
        sender.publish("a/b", b"%d" % number)
    world.quiet()
    write(world, NewRecord(b"a/c", b"theirs"))
    world.crash()
    again = Phone(world, "kept", kept=True)
    assert again.was_there
    assert sorted(again.values()) == sorted([*(b"%d" % number for number in range(12)), b"theirs"])
    Phone(world, "sender").publish("a/b", b"after")
    world.quiet()
    assert again.values()[-1] == b"after"


def test_identifiers_of_qos_2_are_in_the_commit_of_their_message(world: World) -> None:
    sender = Phone(world, "sender", kept=True)
    state = sender.session.note_received(7, is_there=True)
    headers = encode_headers([("mqtt.topic", b"a")])
    publication = Publication("a", b"once", 2, False, headers, publisher=sender.session, state=state)
    world.in_loop(lambda: sender.space.publish(publication))
    world.quiet()
    world.crash()
    again = Phone(world, "sender", kept=True)
    assert again.session.received == {7}
    world.in_loop(lambda: again.space.queues.outbox.mutate(again.session.note_received(7, is_there=False)))
    world.quiet()
    world.crash()
    assert Phone(world, "sender", kept=True).session.received == set()


def test_retained_messages_are_found_after_a_crash_and_cleared(world: World) -> None:
    sender = Phone(world, "sender")
    for name in ("a/b", "a/c", "$odd/x"):
        sender.publish(name, name.encode(), retain=True)
    sender.publish("a/c", b"", retain=True)
    world.quiet()
    world.crash()
    space = Phone(world, "sender").space
    assert [message.topic for message in space.retained.match("a/+", 0)] == ["a/b"]
    assert space.retained.match("#", 0)[0].topic == "a/b"
    write(world, NewRecord(b"by/kafka", b"value"), NewRecord(b"a/b", None), topic="mqtt.retained")
    assert [message.topic for message in space.retained.match("#", 0)] == ["by/kafka"]


def test_the_will_of_a_client_that_vanished_with_the_broker_is_published(world: World) -> None:
    will = WillEntry(
        "default",
        "mortal",
        "wills/mortal",
        b"gone",
        1,
        False,
        (("mqtt.topic", b"wills/mortal"), ("mqtt.client", b"mortal")),
        -1,
        0,
        0,
    )
    kept = Phone(world, "kept", kept=True)
    kept.subscribe("wills/#")
    Phone(world, "mortal", will=will)
    world.crash()
    world.quiet()
    again = Phone(world, "kept", kept=True)
    world.pass_time(2_000)
    world.quiet()
    assert again.values() == [b"gone"]
    world.crash()
    assert Phone(world, "kept", kept=True).values() == [b"gone"], "it was not settled, and is published once"


def test_a_session_ends_when_its_time_is_over(world: World) -> None:
    kept = Phone(world, "kept", kept=True)
    kept.subscribe("a")
    kept.leave()
    queue = kept.session.queue
    world.pass_time(KEPT_S * 1_000 + 5_000)
    world.quiet()
    assert "kept" not in kept.space.sessions
    assert queue is not None
    assert queue.is_gone
    assert not Phone(world, "kept", kept=True).was_there


def test_no_local_holds_for_queues_and_live_messages(world: World) -> None:
    both = Phone(world, "both", kept=True)
    both.subscribe("a", no_local=True)
    both.publish("a", b"mine")
    both.publish("a", b"mine", 0)
    Phone(world, "other").publish("a", b"another's")
    world.quiet()
    assert both.values() == [b"another's"]
    assert both.heard == []


def test_what_is_not_stored_is_given_out_alone(world: World) -> None:
    world.do(
        world.broker.devices.set_rules(
            "default", (TopicRule("live/#", stored=False), TopicRule("s/+", "sensors", "{1}"))
        )
    )
    listener, sender = Phone(world, "listener"), Phone(world, "sender")
    listener.subscribe("#", qos=0)
    sender.publish("live/now", b"1", 0)
    sender.publish("s/7", b"2", 0)
    world.quiet()
    write(world, NewRecord(b"8", b"3"), topic="sensors")
    assert listener.heard == [("live/now", b"1", 0), ("s/7", b"2", 0), ("s/8", b"3", 0)]
