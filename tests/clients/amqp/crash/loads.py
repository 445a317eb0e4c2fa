"""Clients at work, each on a thread of its own, that come back after every kill."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, NackError

from tests.clients.amqp.crash.history import AmqpHistory
from tests.clients.amqp.serving import PATIENCE_S, Broker
from tests.support.crashing.load import Load
from tests.support.crashing.promises import Broken

WORK, DOOMED, DEAD, LATER = "work", "doomed", "dead", "later"
DELAYS = "delays"
PERSISTENT = 2
AWAY = (AMQPError, OSError)
"""What a client sees of a kill."""
PAUSE_S = 0.02


def declare(broker: Broker) -> None:
    with broker.channel() as channel:
        channel.queue_declare(WORK, durable=True)
        channel.queue_declare(DEAD, durable=True)
        channel.queue_declare(LATER, durable=True)
        channel.queue_declare(
            DOOMED,
            durable=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD},
        )
        channel.exchange_declare(DELAYS, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
        channel.queue_bind(LATER, DELAYS, LATER)


class ChannelLoad(Load):
    """A client of pika. It connects again after every kill."""

    def __init__(self, broker: Broker, history: AmqpHistory, name: str) -> None:
        super().__init__(name)
        self.history = history
        self._broker = broker

    def work(self) -> None:
        while self.is_wanted:
            try:
                with self._broker.channel(heartbeat=0, socket_timeout=PATIENCE_S) as channel:
                    self.use(channel)
            except AWAY:
                time.sleep(PAUSE_S)

    def use(self, channel: BlockingChannel) -> None:
        """As long as the connection lives."""
        raise NotImplementedError


class PublishLoad(ChannelLoad):
    """One message after the other, each confirmed or never spoken of again."""

    def __init__(
        self,
        broker: Broker,
        history: AmqpHistory,
        number: int,
        promised: set[bytes],
        exchange: str,
        key: str,
        headers: Callable[[], dict[str, Any] | None] = lambda: None,
    ) -> None:
        super().__init__(broker, history, f"publisher {number} of {key}")
        self._numbers = itertools.count()
        self._publisher = number
        self._promised = promised
        self._exchange = exchange
        self._key = key
        self._headers = headers

    def use(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        while self.is_wanted:
            value = b"%d-%d" % (self._publisher, next(self._numbers))
            properties = pika.BasicProperties(delivery_mode=PERSISTENT, headers=self._headers())
            try:
                channel.basic_publish(self._exchange, self._key, value, properties, mandatory=not self._exchange)
            except NackError:
                continue
            self._promised.add(value)
            self.progress += 1


class SettleLoad(ChannelLoad):
    """Takes work in batches; acknowledges each batch by a transaction, or by closing the channel after it."""

    def __init__(self, broker: Broker, history: AmqpHistory, seed: int) -> None:
        super().__init__(broker, history, "settling consumer")
        self._random = Random(seed)

    def use(self, channel: BlockingChannel) -> None:
        while self.is_wanted:
            if self._random.random() < 0.5:
                self._settle_in_transaction(channel)
            else:
                self._settle_by_closing(channel)
            channel = channel.connection.channel()

    def _settle_in_transaction(self, channel: BlockingChannel) -> None:
        channel.tx_select()
        for _ in range(self._random.randint(1, 5)):
            values, last = self._take(channel)
            if not last:
                break
            channel.basic_ack(last, multiple=True)
            channel.tx_commit()
            self._settled(values)
        channel.cancel()
        channel.close()

    def _settle_by_closing(self, channel: BlockingChannel) -> None:
        values, last = self._take(channel)
        if last:
            channel.basic_ack(last, multiple=True)
        channel.close()
        self._settled(values)

    def _take(self, channel: BlockingChannel) -> tuple[list[bytes], int]:
        count = self._random.randint(1, 40)
        channel.basic_qos(prefetch_count=count)
        values: list[bytes] = []
        last = 0
        for method, _, value in channel.consume(WORK, inactivity_timeout=0.1):
            if method is None:
                break
            if value in self.history.settled:
                raise Broken(f"{value!r} was acknowledged for good, and is given again")
            self.history.delivered.append((value, method.redelivered))
            values.append(value)
            last = method.delivery_tag
            if len(values) >= count:
                break
        return values, last

    def _settled(self, values: list[bytes]) -> None:
        self.history.settled.update(values)
        self.progress += len(values)


class RejectLoad(ChannelLoad):
    """Rejects all that it is given: each becomes a dead letter."""

    def __init__(self, broker: Broker, history: AmqpHistory) -> None:
        super().__init__(broker, history, "rejecting consumer")

    def use(self, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=50)
        for method, _, _ in channel.consume(DOOMED, inactivity_timeout=0.1):
            if method is not None:
                channel.basic_reject(method.delivery_tag, requeue=False)
                self.progress += 1
            if not self.is_wanted:
                break


class ArrivalLoad(ChannelLoad):
    """Notes the delayed messages that come."""

    def __init__(self, broker: Broker, history: AmqpHistory) -> None:
        super().__init__(broker, history, "consumer of delayed messages")

    def use(self, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=50)
        for method, _, value in channel.consume(LATER, inactivity_timeout=0.1):
            if method is not None:
                self.history.arrived.add(value)
                channel.basic_ack(method.delivery_tag)
                self.progress += 1
            if not self.is_wanted:
                break
