"""Fan-out, fan-in, idle connections and the start with many sessions: each beside mosquitto, where it is installed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from benchmarks.kafka.brokers import Running, mainstem
from benchmarks.load import engine, scratch
from benchmarks.mqtt.brokers import installed, mosquitto
from benchmarks.mqtt.crowd import Crowd, Member
from benchmarks.report import Figure
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.devices import SubscriptionEntry
from mainstem.broker.devices.sessions import DeviceSession
from mainstem.coordination.devices.entries import put_session

PAYLOAD = b"x" * 64
RATIO_MIN = 0.5
CONNECTION_BYTES_MAX = 8 << 10
START_SECONDS_MAX = 10
IN_FLIGHT = 10
Measure = Callable[[Running], float]


async def mqtt_flow(parent: str | None, count: int) -> list[Figure]:
    """Messages in a second; our broker syncs what it acknowledges, the other one stores nothing."""
    members = min(1_000, count)
    measures: dict[str, tuple[Measure, float | None]] = {
        f"MQTT, one publisher to {members} subscribers, QoS 0, messages/s": (
            lambda broker: _fan_out(broker, members, 0, count // 5),
            RATIO_MIN,
        ),
        f"MQTT, one publisher to {members} subscribers, QoS 1, messages/s": (
            lambda broker: _fan_out(broker, members, 1, count // 20),
            RATIO_MIN,
        ),
        f"MQTT, {members} publishers to the log, QoS 1, messages/s": (
            lambda broker: _fan_in(broker, members, count * 10),
            RATIO_MIN,
        ),
    }
    figures: list[Figure] = []
    for name, (measure, ratio) in measures.items():
        with mainstem(parent, listener="mqtt") as broker:
            before = broker.cpu_seconds()
            value = measure(broker)
            cpu = broker.cpu_seconds() - before
        with _other(parent) as other:
            base = None if other is None else measure(other)
        figures.append(Figure(name, value, base, at_least=ratio))
        figures.append(Figure(f"{name}: CPU of ours, s", cpu))
    return figures


async def mqtt_sessions(parent: str | None, count: int) -> list[Figure]:
    """Memory of one connection with a subscription of QoS 1, and the start with many sessions that nobody is connected to."""
    connections = min(5_000, count)
    with mainstem(parent, listener="mqtt") as broker:
        value = _connections(broker, connections)
    with _other(parent) as other:
        base = None if other is None else _connections(other, connections)
    seconds = await _start(parent, count)
    return [
        Figure(
            "MQTT, memory of a connection with a subscription of QoS 1, bytes",
            value,
            base,
            at_most=CONNECTION_BYTES_MAX,
        ),
        Figure(f"MQTT, start with {count:,} offline sessions, s", seconds, at_most=START_SECONDS_MAX),
    ]


@contextlib.contextmanager
def _other(parent: str | None) -> Iterator[Running | None]:
    program = installed()
    if program is None:
        yield None
    else:
        with mosquitto(parent, program) as running:
            yield running


def _fan_out(broker: Running, members: int, qos: int, rounds: int) -> float:
    crowd = Crowd(broker, members)
    crowd.subscribe("fan/out", qos)
    sender = Member(broker, "sender")
    sender.connected()
    step = 20 if qos else 50
    began = time.perf_counter()
    for first in range(0, rounds, step):
        for number in range(first, min(first + step, rounds)):
            sender.publish("fan/out", PAYLOAD, qos, number % 60_000 + 1 if qos else 0)
        crowd.hear(members * (min(first + step, rounds) - first))
    seconds = time.perf_counter() - began
    crowd.close()
    return members * rounds / seconds


def _fan_in(broker: Running, members: int, count: int) -> float:
    crowd = Crowd(broker, members)
    sent = 0

    def send(member: Member) -> None:
        nonlocal sent
        if sent < count:
            sent += 1
            member.count += 1
            member.publish(f"fan/in/{id(member) % 1000}", PAYLOAD, 1, member.count % 60_000 + 1)

    began = time.perf_counter()
    for member in crowd.members:
        for _ in range(IN_FLIGHT):
            send(member)
    crowd.run(count, send)
    seconds = time.perf_counter() - began
    crowd.close()
    return count / seconds


def _connections(broker: Running, count: int) -> float:
    warm = Crowd(broker, 100, "warm")
    warm.subscribe("idle", 1)
    before = broker.resident_kb()
    crowd = Crowd(broker, count)
    crowd.subscribe("idle", 1)
    each = (broker.resident_kb() - before) * 1024 / count
    crowd.close()
    warm.close()
    return each


async def _start(parent: str | None, count: int) -> float:
    """Sessions with one subscription each. Those that messages wait for have a queue besides: see `amqp-queues`."""
    with scratch(parent) as directory:
        async with engine(directory, merging=True, wal_spare_files=1) as log:
            broker = await Broker.open(log, LoopClock())
            space = await broker.devices.open("default")
            for first in range(0, count, 1_000):
                state = []
                for number in range(first, min(first + 1_000, count)):
                    session = DeviceSession("default", f"device-{number}", number + 1, 3_600)
                    space.load_session(session, [SubscriptionEntry(f"to/device-{number}/#", 1)], has_queue=False)
                    state.append(put_session(session.entry()))
                await log.alter((), state)
            await broker.close()
        began = time.perf_counter()
        async with engine(directory, merging=True, wal_spare_files=1) as log:
            broker = await Broker.open(log, LoopClock())
            assert len(broker.devices.spaces["default"].sessions) == count
            seconds = time.perf_counter() - began
            await broker.close()
    return seconds
