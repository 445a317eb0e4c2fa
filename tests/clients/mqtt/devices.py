"""Clients of paho-mqtt that can be waited for."""

import queue
import threading
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.serving.mqtt import MqttBroker

PATIENCE_S = 20


def properties(kind: int = PacketTypes.PUBLISH, **values: Any) -> Properties:
    made = Properties(kind)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Device:
    """One client; `heard` has what it was given."""

    def __init__(
        self, port: int, client_id: str = "", *, v5: bool = False, transport: str = "tcp", **more: Any
    ) -> None:
        self.heard: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.reasons: queue.Queue[Any] = queue.Queue()
        self.facts: Any = None
        self.flags: Any = None
        self._port = port
        self._answered = threading.Event()
        self._codes: Any = None
        version = paho.MQTTv5 if v5 else paho.MQTTv311
        if not v5:
            more.setdefault("clean_session", True)
        self.is_v5 = v5
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version, transport=transport, **more
        )
        self.client.on_connect = self._connected
        self.client.on_message = lambda client, data, message: self.heard.put(message)
        self.client.on_subscribe = self._subscribed
        self.client.on_unsubscribe = lambda *_: self._answered.set()
        self.client.on_disconnect = lambda client, data, flags, reason, facts: self.reasons.put(reason)

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, facts: Any) -> None:
        self.flags, self.facts, self._codes = flags, facts, reason
        self._answered.set()

    def _subscribed(self, client: Any, data: Any, message_id: int, codes: Any, facts: Any) -> None:
        self._codes = codes
        self._answered.set()

    def connect(self, keepalive: int = 60, **more: Any) -> Self:
        self._answered.clear()
        self.client.connect("127.0.0.1", self._port, keepalive, **more)
        self.client.loop_start()
        assert self._answered.wait(PATIENCE_S)
        return self

    @property
    def answer(self) -> Any:
        return self._codes

    def subscribe(self, *arguments: Any, **more: Any) -> list[int]:
        self._answered.clear()
        self.client.subscribe(*arguments, **more)
        assert self._answered.wait(PATIENCE_S)
        return [code.value for code in self._codes]

    def unsubscribe(self, text: str) -> None:
        self._answered.clear()
        self.client.unsubscribe(text)
        assert self._answered.wait(PATIENCE_S)

    def publish(self, topic: str, payload: bytes | None, qos: int = 1, **more: Any) -> None:
        info = self.client.publish(topic, payload, qos, **more)
        info.wait_for_publish(PATIENCE_S)
        assert info.is_published()

    def hear(self, count: int = 1) -> list[paho.MQTTMessage]:
        return [self.heard.get(timeout=PATIENCE_S) for _ in range(count)]

    def vanish(self) -> None:
        """Without a word."""
        self.client.loop_stop()
        sock = self.client.socket()
        assert sock is not None
        sock.close()

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Devices:
    """Makes clients of one broker, and ends them."""

    def __init__(self, broker: MqttBroker) -> None:
        self._broker = broker
        self._made: list[Device] = []

    def device(self, client_id: str = "", *, transport: str = "tcp", connect: bool = True, **more: Any) -> Device:
        port = self._broker.websocket_port if transport == "websockets" else self._broker.mqtt_port
        made = Device(port, client_id, transport=transport, **more)
        self._made.append(made)
        return made.connect() if connect else made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for device in self._made:
            device.leave()
