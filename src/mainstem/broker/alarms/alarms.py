"""Alarms of a broker: measured every few seconds; their changes are records of a topic and go to a webhook."""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from mainstem.broker.alarms.book import LIVE_PREFIX, MEASURES, AlarmBook, AlarmChange, AlarmRule
from mainstem.broker.records.publication import NewRecord, Publications
from mainstem.coordination.catalog.catalog import NewTopic
from mainstem.model.errors import MainstemError, PeerError
from mainstem.storage.contract import Engine, Mutation

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.broker.clock import Clock

log = logging.getLogger(__name__)

SCOPE = "alarms"
TOPIC = "mainstem.alarms"
RULES_MAX = 200
WEBHOOK_TIMEOUT_S = 5.0
WEBHOOKS_UNDER_WAY_MAX = 16

Measure: TypeAlias = Callable[[], Awaitable[Mapping[str, Mapping[str, float]]]]
"""Values by measure and subject."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AlarmRule | None).decode


class InvalidRule(PeerError):
    """Not a rule that can be."""


class Alarms:
    """Rules are stored; alarms are in memory, and raised anew after a restart where they still hold."""

    def __init__(self, engine: Engine, clock: Clock, topics: Topics, publications: Publications) -> None:
        self.book = AlarmBook()
        self.sources: list[Measure] = []
        self.webhook = ""
        self._engine = engine
        self._clock = clock
        self._topics = topics
        self._publications = publications
        self._webhooks = 0

    async def load(self) -> None:
        """Take in the rules that are stored."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self.book.set_rule(key.decode(), _decode(value))

    async def set_rule(self, name: str, rule: AlarmRule | None) -> None:
        """Another rule of this name, or none; durable when answered. Raises InvalidRule."""
        if rule is not None:
            if (rule.above is None) is (rule.below is None):
                raise InvalidRule("a rule has either above or below")
            if rule.measure not in MEASURES and not rule.measure.startswith(LIVE_PREFIX):
                raise InvalidRule(f"measures are {', '.join(sorted(MEASURES))} and {LIVE_PREFIX}SERIES")
            if name not in self.book.rules and len(self.book.rules) >= RULES_MAX:
                raise InvalidRule(f"there are {RULES_MAX} rules already")
        # A default that is switched off stays off: so None is stored, too.
        await self._engine.alter((), [Mutation(SCOPE, name.encode(), _encode(rule))])
        await self._announce(self.book.set_rule(name, rule))

    async def look(self) -> None:
        """Measure, and announce what changed."""
        measures: dict[str, Mapping[str, float]] = {}
        for source in self.sources:
            measures.update(await source())
        await self._announce(self.book.observe(measures, self._clock.now_ms()))

    async def _announce(self, changes: list[AlarmChange]) -> None:
        if not changes:
            return
        records = []
        for alarm, is_raised in changes:
            log.warning("alarm %s of %s %s: %s is %s", alarm.rule, alarm.subject or "the broker",
                        "raised" if is_raised else "ended", alarm.measure, alarm.value)  # fmt: skip
            content = {"state": "raised" if is_raised else "ended", **msgspec.structs.asdict(alarm)}
            records.append(NewRecord(f"{alarm.rule}/{alarm.subject}".encode(), msgspec.json.encode(content)))
        try:
            topic = await self._topics.ensure(NewTopic(TOPIC, 1))
            await self._publications.publish(topic, records)
        except MainstemError as error:  # A full disk is itself an alarm, and takes no record of it.
            log.warning("changes of alarms could not be published: %s", error)
        if self.webhook:
            await self._call([record.value or b"" for record in records])

    async def _call(self, contents: list[bytes]) -> None:
        if self._webhooks >= WEBHOOKS_UNDER_WAY_MAX:
            log.warning("the webhook of alarms is too slow: changes were not sent to it")
            return
        self._webhooks += 1
        try:
            await asyncio.to_thread(_post, self.webhook, b'{"changes":[%b]}' % b",".join(contents))
        except (OSError, ValueError) as error:
            log.warning("the webhook of alarms did not take changes: %s", error)
        finally:
            self._webhooks -= 1


def _post(address: str, content: bytes) -> None:
    request = urllib.request.Request(address, content, {"content-type": "application/json"})  # noqa: S310 - checked at the start
    with urllib.request.urlopen(request, timeout=WEBHOOK_TIMEOUT_S) as reply:  # noqa: S310
        reply.read(1 << 16)
