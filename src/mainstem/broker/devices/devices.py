"""Devices of all namespaces: loaded at the start, opened with the first client of each namespace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from mainstem.broker.catalog.topics import Topic, Topics
from mainstem.broker.clock import Clock
from mainstem.broker.devices.limits import DeviceLimits
from mainstem.broker.devices.sessions import DeviceSession
from mainstem.broker.devices.space import DeviceSpace
from mainstem.broker.queues.queues import Queues
from mainstem.broker.routes import Routes
from mainstem.coordination.devices.entries import (
    POSITION,
    RECEIVED,
    RELEASED,
    RULES,
    SCOPE,
    SESSION,
    WILL,
    SessionEntry,
    WillEntry,
    decode_identifier,
    decode_position,
    decode_rules,
    decode_session,
    decode_will,
    put_identifier,
    put_rules,
    put_session,
    put_will,
)
from mainstem.coordination.devices.topic_rules import DEFAULT_RULES, TopicRule, TopicRules, check_rules
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Engine, Mutation

log = logging.getLogger(__name__)

TICK_S = 1.0


class Devices:
    """All of a broker."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        topics: Topics,
        queues: Queues,
        routes: Routes,
        limits: DeviceLimits = DeviceLimits(),  # noqa: B008
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.topics = topics
        self.queues = queues
        self.routes = routes
        self.limits = limits
        self.spaces: dict[str, DeviceSpace] = {}
        """Of namespaces that have sessions, or clients."""
        self._rules: dict[str, tuple[TopicRule, ...]] = {}
        self._positions: dict[int, int] = {}
        self._next_number = 1
        self._claimed: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: dict[str, asyncio.Lock] = {}
        self._is_ticking = self._is_closed = False
        self._others_grow, topics.on_expand = topics.on_expand, self._topic_grows

    def claim(self, task: str) -> bool:
        """Whether the caller is the first one to say that it does this, and so does it for all."""
        is_first = task not in self._claimed
        self._claimed.add(task)
        return is_first

    def govern(self, limits: DeviceLimits) -> None:
        """These hold from now on."""
        self.limits = limits
        for space in self.spaces.values():
            space.govern(limits)

    # Life

    async def load(self) -> None:
        """Take back what is stored. Raises kinds of MainstemError."""
        entries = (await self.engine.load(SCOPE)).entries
        sessions: list[SessionEntry] = []
        wills: list[WillEntry] = []
        identifiers: list[tuple[bytes, int, int]] = []
        for key, value in entries.items():
            prefix = key[: key.index(b"/") + 1]
            if prefix == SESSION:
                sessions.append(decode_session(value))
            elif prefix == WILL:
                wills.append(decode_will(value))
            elif prefix in (RECEIVED, RELEASED):
                identifiers.append((prefix, *decode_identifier(key, prefix)))
            elif prefix == RULES:
                self._rules[key[len(RULES) :].decode()] = decode_rules(value)
            elif prefix == POSITION:
                log_number, offset = decode_position(key, value)
                self._positions[log_number] = offset
        by_number = self._load_sessions(sessions)
        self._load_identifiers(identifiers, by_number)
        for will in wills:
            self.space_of(will.namespace)
        for space in list(self.spaces.values()):
            await space.make_topics(self._positions)
            space.resume_groups()
        self._load_wills(wills)

    def _load_sessions(self, entries: list[SessionEntry]) -> dict[int, DeviceSession]:
        """Those that had a connection have lost it with the run of the broker that has ended."""
        now_ms = self.clock.now_ms()
        by_number: dict[int, DeviceSession] = {}
        for entry in entries:
            space = self.space_of(entry.namespace)
            session = DeviceSession(entry.namespace, entry.client_id, entry.number, entry.expiry_s, entry.user)
            session.is_kept = True
            session.ended_ms = entry.ended_ms or now_ms
            space.load_session(session, entry.subscriptions, has_queue=entry.has_queue)
            space.expire_later(session)
            if not entry.ended_ms:
                self.queues.outbox.mutate([put_session(session.entry())])
            by_number[entry.number] = session
            self._next_number = max(self._next_number, entry.number + 1)
        return by_number

    def _load_identifiers(self, identifiers: list[tuple[bytes, int, int]], by_number: dict[int, DeviceSession]) -> None:
        gone: list[Mutation] = []
        for prefix, number, identifier in identifiers:
            session = by_number.get(number)
            self._next_number = max(self._next_number, number + 1)
            if session is None:
                gone.append(put_identifier(prefix, number, identifier, is_there=False))
            else:
                (session.received if prefix == RECEIVED else session.released).add(identifier)
        if gone:
            self.queues.outbox.mutate(gone)

    def _load_wills(self, wills: list[WillEntry]) -> None:
        """Their clients vanished with the run of the broker that has ended, or before."""
        for will in wills:
            space = self.space_of(will.namespace)
            session = space.sessions.get(will.client_id)
            if session is None:
                session = DeviceSession(will.namespace, will.client_id, self.next_number(), 0)
                session.is_gone = True
            expiry_s = session.expiry_s if session.is_kept else 0
            due_ms = will.due_ms or self.clock.now_ms() + min(will.delay_s, expiry_s) * 1000
            waiting = session.vanished(will, due_ms)
            if not will.due_ms:
                self.queues.outbox.mutate([put_will(waiting)])
            space.wait_for_will(session, waiting)

    def close(self) -> None:
        """Follow nothing more, and store how far that went."""
        self._is_closed = True
        for space in self.spaces.values():
            self._store_positions(space)
            space.close()
        for task in self._tasks:
            task.cancel()

    def next_number(self) -> int:
        """Of a session to come."""
        number = self._next_number
        self._next_number += 1
        return number

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run it to its end; a refusal is told in the log."""

        async def run() -> None:
            try:
                await work
            except MainstemError as error:
                if not self._is_closed:
                    log.warning("work for devices failed: %s", error)

        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Namespaces

    def _topic_grows(self, topic: Topic) -> None:
        """New partitions are followed from their beginning."""
        self._others_grow(topic)
        space = self.spaces.get(topic.namespace)
        if space is not None and topic.name in space.rules.topics:
            new = {number: 0 for number in topic.logs if not space.following.follows(number)}
            self.spawn(space.make_topics(new))

    def space_of(self, namespace: str) -> DeviceSpace:
        """Devices of a namespace, whose topics may not be there yet."""
        space = self.spaces.get(namespace)
        if space is None:
            space = self.spaces[namespace] = DeviceSpace(self, namespace, self._ready_rules(namespace))
            self._tick_later()
        return space

    async def open(self, namespace: str) -> DeviceSpace:
        """The same, with topics. Raises kinds of MainstemError."""
        space = self.space_of(namespace)
        if any(name not in space.topics for name in space.rules.topics) or not space.is_open:
            lock = self._opening.setdefault(namespace, asyncio.Lock())
            async with lock:
                await space.make_topics(self._positions)
        return space

    # Rules

    def rules(self, namespace: str) -> tuple[TopicRule, ...]:
        """Those that were set, else the default."""
        return self._rules.get(namespace, DEFAULT_RULES)

    def _ready_rules(self, namespace: str) -> TopicRules:
        return TopicRules(self.rules(namespace))

    async def set_rules(self, namespace: str, rules: tuple[TopicRule, ...] | None) -> None:
        """Durable when answered; None: the default again. Raises InvalidTopicRule, and kinds of MainstemError."""
        check_rules(rules or ())
        await self.engine.alter((), [put_rules(namespace, rules)])
        if rules is None:
            self._rules.pop(namespace, None)
        else:
            self._rules[namespace] = rules
        if (space := self.spaces.get(namespace)) is not None:
            await space.set_rules(self._ready_rules(namespace))

    # Time

    def _tick_later(self) -> None:
        if not self._is_ticking and not self._is_closed:
            self._is_ticking = True
            self.clock.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._is_ticking = False
        if self._is_closed:
            return
        now_ms = self.clock.now_ms()
        for space in self.spaces.values():
            space.expire(now_ms)
            self._store_positions(space)
        self._tick_later()

    def _store_positions(self, space: DeviceSpace) -> None:
        """How far topics were given to sessions that are kept; without those nobody asks for it."""
        if space.has_kept_sessions and (changed := space.following.positions()):
            self.queues.outbox.mutate(changed)
