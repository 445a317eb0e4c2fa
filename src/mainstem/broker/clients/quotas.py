"""The limits that administrators have set for clients, and how far each client has used its own up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from mainstem.broker.clock import Clock
from mainstem.coordination.clients.quota import (
    ADDRESS,
    ADDRESS_KEYS,
    CLIENT,
    CLIENT_KEYS,
    CONNECTIONS,
    CONSUMED_BYTES,
    MUTATIONS,
    PRODUCED_BYTES,
    REQUEST_TIME,
    USER,
    Entity,
    Limit,
    LimitTable,
    check_limit,
    entity_of,
)
from mainstem.coordination.clients.rate import FULL_WINDOWS, WINDOW_S, TokenBucket, WindowedRate
from mainstem.storage.contract import Engine, Mutation

__all__ = [
    "ADDRESS",
    "CLIENT",
    "CONNECTIONS",
    "CONSUMED_BYTES",
    "FULL_WINDOWS",
    "MUTATIONS",
    "PRODUCED_BYTES",
    "REQUEST_TIME",
    "USER",
    "WINDOW_S",
    "ClientQuotas",
    "Entity",
    "Limit",
    "RateGauge",
    "TokenBucket",
    "Wishes",
    "entity_of",
]

SCOPE = "client_quotas"
BEARERS_MAX = 10_000
"""Of one gauge: those that share a limit, and are remembered with what they used."""

Wishes: TypeAlias = Mapping[Entity, Mapping[str, float | None]]
"""By entity and key the new limit; None: no limit any more."""

_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(tuple[tuple[str, str | None], ...]).decode
_decode = msgspec.msgpack.Decoder(dict[str, float]).decode


class ClientQuotas:
    """By entity."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits: dict[Entity, dict[str, float]] = {}
        self._tables: dict[str, LimitTable] = {}
        self._listeners: list[Callable[[], None]] = []
        self._changes_lock = asyncio.Lock()
        self._rebuild()

    async def load(self) -> None:
        """Take back what is stored."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._limits[_decode_key(key)] = _decode(value)
        self._rebuild()

    def all(self) -> Mapping[Entity, Mapping[str, float]]:
        """What was set."""
        return self._limits

    def table(self, key: str) -> LimitTable:
        """The limits of one key, as they are now."""
        return self._tables[key]

    def on_change(self, listener: Callable[[], None]) -> None:
        """Be told whenever limits have changed."""
        self._listeners.append(listener)

    def check(self, entity: Entity, wish: Mapping[str, float | None]) -> None:
        """Raises InvalidQuota."""
        for key, number in wish.items():
            check_limit(entity, key, number)

    async def alter(self, wishes: Wishes) -> None:
        """Change limits that were checked, by one commit."""
        async with self._changes_lock:
            changed: dict[Entity, dict[str, float]] = {}
            for entity, wish in wishes.items():
                revised = {**self._limits.get(entity, {}), **wish}
                changed[entity] = {key: number for key, number in revised.items() if number is not None}
            mutations = [
                Mutation(SCOPE, _encode(entity), _encode(limits) if limits else None)
                for entity, limits in changed.items()
            ]
            await self._engine.alter((), mutations)
            self._limits = {e: limits for e, limits in {**self._limits, **changed}.items() if limits}
            self._rebuild()

    def _rebuild(self) -> None:
        for key in (*CLIENT_KEYS, *ADDRESS_KEYS):
            self._tables[key] = LimitTable({e: limits[key] for e, limits in self._limits.items() if key in limits})
        for listener in self._listeners:
            listener()


class RateGauge:
    """What the bearers of one kind of limit have used recently. Bounded: the silent ones are forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._rates: dict[tuple[str, str], WindowedRate] = {}

    def record(self, limit: Limit, amount: float) -> float:
        """So much more; answers how many seconds of silence bring the bearer back to his limit."""
        now = self._monotonic()
        rate = self._rate(limit.bearer, now)
        rate.record(amount, now)
        return rate.pace(now).excess_s(limit.number)

    def excess_s(self, limit: Limit) -> float:
        """The same without adding anything."""
        now = self._monotonic()
        rate = self._rates.get(limit.bearer)
        return 0.0 if rate is None else rate.pace(now).excess_s(limit.number)

    def is_unused(self, limit: Limit) -> bool:
        """Whether the bearer has had nothing recently."""
        rate = self._rates.get(limit.bearer)
        return rate is None or rate.pace(self._monotonic()).amount <= 0

    def _rate(self, bearer: tuple[str, str], now: float) -> WindowedRate:
        rate = self._rates.get(bearer)
        if rate is None:
            if len(self._rates) >= BEARERS_MAX:
                self._make_room(now)
            rate = self._rates[bearer] = WindowedRate()
        return rate

    def _make_room(self, now: float) -> None:
        for bearer in [bearer for bearer, rate in self._rates.items() if rate.is_silent(now)]:
            del self._rates[bearer]
        if len(self._rates) >= BEARERS_MAX:
            del self._rates[next(iter(self._rates))]
