"""A disk that publishers have filled: nothing confirmed is lost, and what is taken out makes room again."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import AMQPError, ConnectionBlockedTimeout, NackError

from tests.clients.amqp.serving import PATIENCE_S, Broker, serving, take
from tests.support.serving.small_disk import SMALL_FILES, small_disk

pytestmark = pytest.mark.system

BODY = bytes(50_000)
MESSAGES_MAX = 2_000
TRIES = 5
BLOCKED_S = 0.5
QUEUE = "filled"
LASTING = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with small_disk(tmp_path / "disk") as disk, serving(disk / "data", *SMALL_FILES) as running:
        yield running


def publish(broker: Broker, count: int) -> int:
    """Publish with confirms, until one is refused; answers how many were confirmed."""
    parameters = pika.ConnectionParameters(host="127.0.0.1", port=broker.port, blocked_connection_timeout=BLOCKED_S)
    connection = pika.BlockingConnection(parameters)
    confirmed = 0
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        while confirmed < count:
            channel.basic_publish("", QUEUE, BODY, LASTING)
            confirmed += 1
    except (NackError, ConnectionBlockedTimeout):
        return confirmed
    finally:
        _close(connection)
    return confirmed


def publish_until_refused(broker: Broker) -> int:
    """Fill the disk; answers how many messages were confirmed."""
    confirmed = publish(broker, MESSAGES_MAX)
    assert confirmed < MESSAGES_MAX, "the disk never was full"
    return confirmed


def _close(connection: pika.BlockingConnection) -> None:
    """The broker does not read a connection that is blocked, and does not answer its close."""
    with contextlib.suppress(AMQPError):
        connection.close()


def wait_until_published(broker: Broker) -> None:
    """Publish one message; a full disk may have to be emptied first."""
    deadline = time.monotonic() + PATIENCE_S
    while not publish(broker, 1):
        assert time.monotonic() < deadline, "every message is refused, although all were taken out"


def test_a_full_disk_is_emptied_and_filled_again(broker: Broker) -> None:
    with broker.channel() as channel:
        channel.queue_declare(QUEUE, durable=True)
    confirmed = publish_until_refused(broker)
    assert confirmed > 400
    confirmed += sum(publish(broker, 1) for _ in range(TRIES))
    broker.kill()
    broker.start()
    with broker.channel() as channel:
        found = take(channel, QUEUE, confirmed)
        assert {body for _, _, body in found} == {BODY}
        channel.basic_ack(found[-1][0].delivery_tag, multiple=True)
        channel.cancel()
        channel.queue_purge(QUEUE)
    wait_until_published(broker)
    broker.kill()
    broker.start()
    again = 0
    deadline = time.monotonic() + PATIENCE_S
    while again <= 400:
        # A refusal meanwhile is no fault: files are removed beside the publisher.
        again += publish(broker, 400)
        assert time.monotonic() < deadline, "the space of what was taken out has not come back"
    with broker.channel() as channel:
        channel.queue_purge(QUEUE)
    wait_until_published(broker)
