"""Compacted reads: of each key the newest message that was there when the topic was compacted, and all that came later.

The log keeps everything: what a compacted reader leaves out is decided when it subscribes. A message without a payload removes
its key; one without a key stays.
"""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Edge, ReadHint
from mainstem.broker.queues import Message
from mainstem.model.errors import InvalidBatch
from mainstem.protocols.pulsar.handlers.book import Book
from mainstem.wire.messages.stored_messages import decode_messages
from mainstem.wire.record_batch import batches_in, read_header

COMPACTED = "compacted"
"""The fact up to which offset each partition was compacted."""
READ_BYTES = 1 << 20
VIEWS_MAX = 64
"""Compacted logs whose survivors are kept in memory."""


class View:
    """What of a log is left out."""

    def __init__(self, horizon: int, dropped: frozenset[int]) -> None:
        self.horizon = horizon
        self._dropped = dropped

    def shows(self, message: Message) -> bool:
        """Whether a compacted reader is given it."""
        return message.offset >= self.horizon or message.offset not in self._dropped


class Compaction:
    """Of all topics."""

    def __init__(self, broker: Broker, book: Book) -> None:
        self._broker = broker
        self._book = book
        self._views: dict[int, View] = {}
        self._running: set[int] = set()

    def status(self, log: int, topic: Topic, part: int) -> str:
        """In Pulsar's words."""
        if log in self._running:
            return "RUNNING"
        return "SUCCESS" if self._horizon(topic, part) is not None else "NOT_RUN"

    def is_running(self, log: int) -> bool:
        """Whether it is being compacted."""
        return log in self._running

    def _horizon(self, topic: Topic, part: int) -> int | None:
        found: int | None = self._book.facts(topic).get(COMPACTED, {}).get(str(part))
        return found

    async def compact(self, topic: Topic, part: int) -> None:
        """Up to where the log ends now. Durable when answered."""
        log = topic.logs[part]
        self._running.add(log)
        try:
            horizon = (await self._broker.find(log, Edge.STABLE)).offset
            self._keep(log, await self._look(log, horizon))
            known = self._book.facts(topic).get(COMPACTED, {})
            await self._book.put_fact(topic, COMPACTED, {**known, str(part): horizon})
        finally:
            self._running.discard(log)

    async def view(self, topic: Topic, part: int) -> View | None:
        """What a compacted reader is shown; None: everything."""
        log, horizon = topic.logs[part], self._horizon(topic, part)
        if horizon is None:
            return None
        known = self._views.get(log)
        if known is None or known.horizon != horizon:
            known = await self._look(log, horizon)
            self._keep(log, known)
        return known

    def _keep(self, log: int, view: View) -> None:
        self._views.pop(log, None)
        self._views[log] = view
        while len(self._views) > VIEWS_MAX:
            del self._views[next(iter(self._views))]

    async def _look(self, log: int, horizon: int) -> View:
        newest: dict[bytes, int] = {}
        dropped: set[int] = set()
        offset = (await self._broker.find(log, Edge.START)).offset
        while offset < horizon:
            result = await self._broker.read(log, offset, READ_BYTES, ReadHint.CATCH_UP)
            for buffer in result.batches:
                for position, size in batches_in(buffer):
                    header = read_header(buffer, position)
                    if header.is_control or not header.record_count:
                        continue
                    try:
                        messages = decode_messages(memoryview(buffer)[position : position + size], None)
                    except InvalidBatch:
                        continue
                    for message in messages:
                        if message.key is None or not offset <= message.offset < horizon:
                            continue
                        older = newest.pop(message.key, None)
                        if older is not None:
                            dropped.add(older)
                        newest[message.key] = message.offset
                        if not message.value:
                            dropped.add(message.offset)
            if result.next_offset <= offset:
                break
            offset = result.next_offset
        return View(horizon, frozenset(dropped))
