"""A broker under load from AMQP clients, and all that must hold after kills."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tests.clients.amqp.crash.history import AmqpHistory, check_delivered, check_stored
from tests.clients.amqp.crash.loads import (
    DEAD,
    DELAYS,
    DOOMED,
    LATER,
    WORK,
    ArrivalLoad,
    PublishLoad,
    RejectLoad,
    SettleLoad,
    declare,
)
from tests.clients.amqp.serving import Broker, depth, serving
from tests.support.clients.confluent import read_all
from tests.support.crashing.broker_victim import BrokerVictim
from tests.support.crashing.load import Load, at_work
from tests.support.crashing.promises import Broken

DELAY_MS_MAX = 3_000
END_S = 60


class AmqpVictim(BrokerVictim):
    """Publishers with confirms, and consumers that acknowledge, reject and wait for what is delayed."""

    def __init__(self, broker: Broker, chance: Random) -> None:
        def delay() -> dict[str, Any]:
            return {"x-delay": chance.randint(1, DELAY_MS_MAX)}

        history = AmqpHistory()
        self._history = history
        self._channel = broker.channel
        self._kafka_address = broker.kafka_address
        self._publishers: list[Load] = [
            PublishLoad(broker, history, 0, history.confirmed, "", WORK),
            PublishLoad(broker, history, 1, history.confirmed, "", WORK),
            PublishLoad(broker, history, 0, history.doomed, "", DOOMED),
            PublishLoad(broker, history, 0, history.delayed, DELAYS, LATER, delay),
        ]
        self._consumers: list[Load] = [
            SettleLoad(broker, history, chance.randrange(1 << 30)),
            RejectLoad(broker, history),
            ArrivalLoad(broker, history),
        ]
        self.loads = [*self._publishers, *self._consumers]
        super().__init__(broker, self.loads)

    def check_running(self) -> str:
        history = self._history
        return (
            f"{len(history.confirmed)} confirmed, {len(history.settled)} settled, {len(history.doomed)} doomed, "
            f"{len(history.arrived)} of {len(history.delayed)} delayed came"
        )

    def verify(self) -> Mapping[str, int]:
        history = self._history
        for load in self._publishers:
            load.finish()
        self._wait_drained()
        for load in self._consumers:
            load.finish()
        check_delivered(history)
        check_stored("work", history.confirmed, self._stored(WORK))
        check_stored("doomed", history.doomed, self._stored(DOOMED))
        check_stored("dead letters", history.doomed, self._stored(DEAD), in_order=False)
        check_stored("delayed", history.delayed, self._stored(LATER), in_order=False)
        return {
            "confirmed": len(history.confirmed),
            "settled": len(history.settled),
            "delayed": len(history.delayed),
            "dead": len(history.doomed),
        }

    def _wait_drained(self) -> None:
        """Until everything was consumed, and everything delayed has come."""
        history = self._history
        end = time.monotonic() + END_S
        with self._channel() as channel:
            while (
                history.confirmed - {value for value, _ in list(history.delivered)}
                or depth(channel, WORK)
                or depth(channel, DOOMED)
                or history.delayed - history.arrived
            ):
                for load in self._consumers:
                    load.check()
                if time.monotonic() > end:
                    missing = history.delayed - history.arrived
                    raise Broken(
                        f"not drained: {depth(channel, WORK)} of work, "
                        f"{depth(channel, DOOMED)} doomed, {len(missing)} delayed {sorted(missing)[:5]}"
                    )
                time.sleep(0.1)

    def _stored(self, queue: str) -> list[bytes]:
        """All that the log of a queue holds: it is a topic, and a reader of topics is given all of it."""
        return [value for _, value in read_all(self._kafka_address, queue)[0]]


@contextlib.contextmanager
def amqp_at_work(data_dir: Path, chance: Random) -> Iterator[AmqpVictim]:
    """A broker on an empty directory, and its clients."""
    with serving(data_dir) as broker:
        declare(broker)
        victim = AmqpVictim(broker, chance)
        with at_work(victim.loads):
            yield victim
