"""A broker under load from clients of paho-mqtt, which come back by themselves, and all that must hold after kills."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MessageState

from tests.clients.mqtt.crash.history import MqttHistory, check_heard, check_once, check_wills
from tests.support.clients.confluent import read_all
from tests.support.crashing.promises import Broken
from tests.support.serving.mqtt import MqttBroker

UNACKNOWLEDGED_MAX = 50
PROGRESS_MIN = 20
"""Acknowledgements of each sender, and messages of each listener, between two kills."""
END_S = 90
KILL_S_MAX = 0.25


class RememberingClient(paho.Client):
    """paho 2.1 forgets with the second failed attempt to connect that a message awaits PUBCOMP alone, and publishes it again.

    The standard forbids that [MQTT-4.3.3-7], and no broker can tell such a message from another one.
    """

    def _messages_reconnect_reset_out(self) -> None:
        for message in self._out_messages.values():
            if message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                message.state = MessageState.MQTT_MS_WAIT_FOR_PUBCOMP
        super()._messages_reconnect_reset_out()


def lasting_client(client_id: str, port: int) -> paho.Client:
    """One whose session outlives its connection."""
    version = CallbackAPIVersion.VERSION2
    client = RememberingClient(version, client_id=client_id, protocol=paho.MQTTv311, clean_session=False)
    client.reconnect_delay_set(0.05, 0.2)
    client.max_inflight_messages_set(UNACKNOWLEDGED_MAX)
    client.connect_async("127.0.0.1", port, keepalive=30)
    return client


class Sender:
    """Publishes numbers at one quality of service, as many at once as may be unacknowledged."""

    def __init__(self, name: str, qos: int, port: int) -> None:
        self.topic = f"load/{name}"
        self.qos = qos
        self.sent = self.acknowledged = 0
        self._room = threading.Semaphore(UNACKNOWLEDGED_MAX)
        self._is_over = threading.Event()
        self.client = lasting_client(f"sender-{name}", port)
        self.client.on_publish = self._published
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.client.loop_start()
        self._thread.start()

    def _published(self, *_: Any) -> None:
        self.acknowledged += 1
        self._room.release()

    def _run(self) -> None:
        while not self._is_over.is_set():
            if self._room.acquire(timeout=0.1):
                self.client.publish(self.topic, b"%d-%d" % (self.qos, self.sent), self.qos)
                self.sent += 1

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        wait(lambda: self.acknowledged == self.sent, f"{self.topic}: {self.sent - self.acknowledged} unacknowledged")


class Listener:
    """Hears all of them in one session."""

    def __init__(self, port: int, history: MqttHistory) -> None:
        self._history = history
        self._subscribed = threading.Event()
        self.client = lasting_client("listener", port)
        self.client.on_message = self._heard
        self.client.on_connect = lambda client, *_: client.subscribe([("load/#", 2), ("wills/#", 1)])
        self.client.on_subscribe = lambda *_: self._subscribed.set()

    def start(self) -> None:
        self.client.loop_start()
        assert self._subscribed.wait(END_S)

    def _heard(self, client: Any, data: Any, message: paho.MQTTMessage) -> None:
        self._history.heard.setdefault(message.topic, []).append(message.payload)


def wait(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + END_S
    while not is_so():
        if time.monotonic() > deadline:
            raise Broken(what)
        time.sleep(0.02)


class MqttVictim:
    """Senders of QoS 1 and 2, a listener, and before each kill a client with a will."""

    def __init__(self, broker: MqttBroker) -> None:
        self._broker = broker
        self._history = MqttHistory()
        self._listener = Listener(broker.mqtt_port, self._history)
        self._senders = [Sender("one", 1, broker.mqtt_port), Sender("two", 2, broker.mqtt_port)]
        self._listener.start()
        for sender in self._senders:
            sender.start()

    def start(self) -> None:
        self._broker.start()

    def work(self, chance: Random) -> None:
        number = len(self._history.mortals)
        mortal = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"mortal-{number}")
        mortal.will_set(f"wills/{number}", b"gone", 1)
        connected = threading.Event()
        mortal.on_connect = lambda *_: connected.set()
        mortal.connect("127.0.0.1", self._broker.mqtt_port)
        mortal.loop_start()
        assert connected.wait(END_S)
        self._history.mortals.append(mortal)
        before = [(sender, sender.acknowledged) for sender in self._senders]
        heard = {sender.topic: len(self._history.heard.get(sender.topic, ())) for sender in self._senders}
        for sender, count in before:
            wait(lambda s=sender, c=count: s.acknowledged >= c + PROGRESS_MIN, f"{sender.topic} stands still")
        for topic, count in heard.items():
            wait(
                lambda t=topic, c=count: len(self._history.heard.get(t, ())) >= c + PROGRESS_MIN,
                f"{topic} is not heard",
            )
        time.sleep(chance.random() * KILL_S_MAX)

    def kill(self) -> None:
        for mortal in self._history.mortals[-1:]:
            mortal.reconnect_delay_set(1_000, 1_000)  # it stays away
        self._broker.kill()

    def check_stopped(self, chance: Random) -> None:
        """Clients are asked, not files."""

    def check_running(self) -> str:
        return ", ".join(f"{sender.topic}: {sender.acknowledged}" for sender in self._senders)

    def verify(self) -> Mapping[str, int]:
        for sender in self._senders:
            sender.stop()
        one, two = self._senders
        history = self._history
        sent = {
            sender.topic: {b"%d-%d" % (sender.qos, number) for number in range(sender.sent)} for sender in self._senders
        }
        for topic, expected in sent.items():
            wait(lambda t=topic, e=expected: e <= set(history.heard.get(t, ())), f"{topic}: some were never heard")
        wait(
            lambda: all(f"wills/{number}" in history.heard for number in range(len(history.mortals))),
            "the wills of some clients were never heard",
        )
        self.close()
        stored = [value for part in read_all(self._broker.kafka, "mqtt", 8).values() for _, value in part]
        check_once("stored at QoS 2", [value for value in stored if value.startswith(b"2-")], two.sent, 2)
        check_once("heard at QoS 2", history.heard[two.topic], two.sent, 2)
        check_heard("heard at QoS 1", history.heard[one.topic], one.sent, 1)
        check_heard("stored at QoS 1", [value for value in stored if value.startswith(b"1-")], one.sent, 1)
        check_wills(history.heard, len(history.mortals))
        return {"one": one.acknowledged, "two": two.acknowledged, "wills": len(history.mortals)}

    def close(self) -> None:
        for client in (self._listener.client, *(sender.client for sender in self._senders), *self._history.mortals):
            client.disconnect()
            client.loop_stop()


@contextlib.contextmanager
def mqtt_at_work(directory: Path, chance: Random) -> Iterator[MqttVictim]:
    """A broker and its load."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    broker = MqttBroker(directory)
    try:
        yield MqttVictim(broker)
        broker.close()
    finally:
        if broker.program.process.poll() is None:
            broker.kill()
