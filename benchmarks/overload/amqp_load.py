"""AMQP publishers that never wait for a confirm, and one beside them that does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.amqp.raw_client import RawClient
from benchmarks.kafka.brokers import Running
from benchmarks.overload.broker import Outcome, Overloaded
from mainstem.protocols.amqp.codec.framing import METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method
from mainstem.protocols.amqp.codec.properties import encode_properties

EXCHANGE = "overload"
BESIDE = "beside"
PAUSE_SECONDS = 0.01
FRAME_BYTES = 131_072
SENT_AT_ONCE_BYTES = 64 << 10


def declare(client: RawClient, queues: int) -> list[str]:
    """A fanout exchange, and durable queues bound to it; answers their names."""
    names = [f"overload-{number}" for number in range(queues)]
    client.call("exchange.declare", exchange=EXCHANGE, type="fanout", durable=True)
    for name in names:
        client.call("queue.declare", queue=name, durable=True)
        client.call("queue.bind", queue=name, exchange=EXCHANGE)
    return names


def message(exchange: str, key: str, size: int) -> bytes:
    """The frames of a persistent message."""
    method = encode_method("basic.publish", exchange=exchange, routing_key=key)
    content = encode_content(1, encode_properties({"delivery_mode": 2}), bytes(size), FRAME_BYTES - 8)
    return encode_frame(METHOD, 1, method) + content


def count(client: RawClient, queue: str) -> int:
    """How many messages wait in it."""
    return client.ask("queue.declare", queue=queue, passive=True)["message_count"]


class Beside:
    """Another client: a message, its confirm, a short pause, and again."""

    def __init__(self, broker: Running) -> None:
        self._client = RawClient(broker)
        self._client.call("queue.declare", queue=BESIDE, durable=True)
        self._client.call("confirm.select")
        self._stopping = threading.Event()
        self.times_ms: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        frames = message("", BESIDE, 100)
        while not self._stopping.wait(PAUSE_SECONDS):
            began = time.monotonic()
            self._client.send(frames)
            self._client.wait()
            self.times_ms.append((time.monotonic() - began) * 1000)

    def end(self) -> float:
        """Stop; answers the 99th percentile in milliseconds."""
        self._stopping.set()
        self._thread.join()
        self._client.cut()
        times = sorted(self.times_ms)
        return times[int(len(times) * 0.99)]


def publish(broker: Running, frames: bytes, messages: int) -> None:
    """Send messages without confirms, and close the connection: its answer says that the broker took all of them."""
    client = RawClient(broker)
    at_once = max(1, SENT_AT_ONCE_BYTES // len(frames))
    sent = 0
    try:
        while sent < messages:
            some = min(at_once, messages - sent)
            client.send(frames * some)
            sent += some
        client.call("channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)
        client.close()
    finally:
        client.cut()


def run_all(jobs: Sequence[Callable[[], None]]) -> float:
    """At the same time; answers the seconds that all of them took."""
    failures: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that asked
            failures.append(error)

    began = time.monotonic()
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.monotonic() - began


def flood(broker: Overloaded, *, queues: int, publishers: int, messages: int, size: int) -> Outcome:
    """Publish messages to every queue, `messages` in all, while another client sends beside the publishers."""
    address = broker.at("amqp")
    client = RawClient(address)
    names = declare(client, queues)
    each = messages // publishers
    frames = message(EXCHANGE, "", size)
    beside = Beside(address)
    seconds = run_all([lambda: publish(address, frames, each)] * publishers)
    p99_ms = beside.end()
    stored = min(count(client, name) for name in names)
    client.cut()
    return Outcome(each * publishers, stored, seconds, p99_ms)
