"""What is stored of queues and subscriptions, between the start and the first use of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainstem.coordination.dead_letters.deaths import Attempt
from mainstem.coordination.offset_pages import PAGE_BITS, PAGE_OFFSETS
from mainstem.coordination.queues import entries
from mainstem.coordination.queues.properties import QueueProperties
from mainstem.coordination.subscriptions.entries import (
    decode_attempts,
    decode_due,
    decode_floor,
    decode_floor_key,
    decode_page,
    decode_page_key,
    decode_rest_key,
    decode_tried_key,
)
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog
from mainstem.storage.contract import Mutation

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.queues.queues import Queues


class StoredLane(NamedTuple):
    """One log."""

    cursor: SubscribedLog
    given: int
    rewound: int


class StoredLogs:
    """By log, what was loaded of one scope and nobody asked for yet."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        """Where what becomes of them is stored."""
        self._floors: dict[int, int] = {}
        self._pages: dict[int, list[tuple[int, bytes]]] = {}
        self._given: dict[int, int] = {}
        self._rewound: dict[int, int] = {}
        self._rests: dict[int, dict[int, int]] = {}
        self._attempts: dict[int, dict[int, list[Attempt]]] = {}

    def load_entry(self, key: bytes, value: bytes) -> None:
        """Take one entry in."""
        if (log := decode_floor_key(key)) is not None:
            self._floors[log] = decode_floor(value)
        elif (place := decode_page_key(key)) is not None:
            self._pages.setdefault(place[0], []).append((place[1], value))
        elif key.startswith(entries.GIVEN_PREFIX):
            self._given[entries.decode_log(key, entries.GIVEN_PREFIX)] = entries.decode_number(value)
        elif key.startswith(entries.REWOUND_PREFIX):
            self._rewound[entries.decode_log(key, entries.REWOUND_PREFIX)] = entries.decode_number(value)
        elif (place := decode_rest_key(key)) is not None:
            self._rests.setdefault(place[0], {})[place[1]] = decode_due(value)
        elif (place := decode_tried_key(key)) is not None:
            self._attempts.setdefault(place[0], {})[place[1]] = decode_attempts(value)

    def put_floor(self, log: int, floor: int) -> None:
        """Begin to read a log there."""
        self._floors[log] = floor

    def floor(self, log: int) -> int:
        """Below which all is settled, of a log that nobody asked for yet."""
        return self._floors.get(log, 0)

    def settled(self, log: int, start: int) -> int:
        """How many offsets of a log are settled, or gone below its start; of one that nobody asked for yet."""
        floor = max(self._floors.get(log, 0), start)
        above = 0
        for page, value in self._pages.get(log, ()):
            first = max(floor - (page << PAGE_BITS), 0)
            if first < PAGE_OFFSETS:
                above += decode_page(value)[0].range_cardinality(first, PAGE_OFFSETS)
        return floor + above

    def take(self, log: int) -> StoredLane:
        """What is known of a log; from now on its lane knows better."""
        floor = self._floors.pop(log, None)
        cursor = SubscribedLog(log, floor or 0)
        if floor is not None:
            cursor.restore_floor(floor)
        for page, value in self._pages.pop(log, ()):
            cursor.replay_page(page, value)
        for offset, due_ms in self._rests.pop(log, {}).items():
            cursor.replay_rest(offset, due_ms)
        for offset, attempts in self._attempts.pop(log, {}).items():
            cursor.replay_attempts(offset, attempts)
        return StoredLane(cursor, self._given.pop(log, 0), self._rewound.pop(log, 0))


class StoredQueues(StoredLogs):
    """Of all queues, which share a scope."""

    def __init__(self, queues: Queues) -> None:
        super().__init__(entries.SCOPE)
        self._queues = queues

    def load(self, stored: Mapping[bytes, bytes]) -> list[Queue]:
        """Make all queues; answers those that were not to outlast the last run."""
        gone: list[Queue] = []
        paused: list[tuple[str, str]] = []
        shared: dict[QueueProperties, QueueProperties] = {}
        for key, value in stored.items():
            if key.startswith(entries.QUEUE_PREFIX):
                entry = entries.decode_queue(value)
                properties = shared.setdefault(entry.properties, entry.properties)
                queue = self._queues.add(msgspec.structs.replace(entry, properties=properties))
                if key != entries.queue_key(entry.namespace, entry.name):  # stored while zeros were not escaped
                    renamed = [Mutation(entries.SCOPE, key, None), entries.put_queue(entry)]
                    self._queues.outbox.mutate(renamed)
                if not entry.properties.is_lasting:
                    gone.append(queue)
            elif key.startswith(entries.PAUSED_PREFIX):
                paused.append(entries.decode_paused(key))
            else:
                self.load_entry(key, value)
        for namespace, name in paused:
            if (found := self._queues.find(namespace, name)) is not None:
                found.pause()
        return gone
