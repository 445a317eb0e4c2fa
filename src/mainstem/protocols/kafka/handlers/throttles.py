"""What keeps clients to their limits: an answer says how long to wait, and for so long nothing more is read (KIP-219).

Without any limit set, all of this costs a request one look at `is_active`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from mainstem.broker.broker import Broker
from mainstem.broker.clients.quotas import (
    CONNECTIONS,
    CONSUMED_BYTES,
    FULL_WINDOWS,
    MUTATIONS,
    PRODUCED_BYTES,
    REQUEST_TIME,
    WINDOW_S,
    Limit,
    RateGauge,
    TokenBucket,
)
from mainstem.protocols.kafka.session.machine import ConnectionState, Reply

PRODUCE_KEY, FETCH_KEY, SHARE_FETCH_KEY = 0, 1, 78
PERCENT = 100
BUCKETS_MAX = 10_000
THROTTLE_MS_MAX = 2**31 - 1
"""What an answer has room for: 24 days."""
_CLIENT_LENGTH_AT = 8
Dispatch: TypeAlias = Callable[[int, memoryview, Reply, ConnectionState], None]
_LENGTH = struct.Struct(">h")


class FetchAllowance:
    """What one fetch may cost its client."""

    __slots__ = ("_gauge", "_limit", "_throttles", "bytes_max")

    def __init__(self, gauge: RateGauge, limit: Limit, throttles: Throttles) -> None:
        self._gauge = gauge
        self._limit = limit
        self._throttles = throttles
        self.bytes_max = int(limit.number * FULL_WINDOWS * WINDOW_S)
        """More at once could never be within the limit."""

    def charge(self, size: int, reply: Reply) -> bool:
        """Whether this number of bytes may be given. If not, the client is to come again later.

        A client that has had nothing recently gets what it asks for: a batch that is larger than the limit allows in ten
        seconds would otherwise never come.
        """
        is_first = self._gauge.is_unused(self._limit)
        excess_s = self._gauge.record(self._limit, size)
        if excess_s <= 0:
            return True
        self._throttles.throttle(reply, excess_s)
        if not is_first:
            self._gauge.record(self._limit, -size)
        return is_first


class Throttles:
    """All limits of a broker's clients."""

    def __init__(self, broker: Broker) -> None:
        self._quotas = broker.client_quotas
        self._clock = broker.clock
        self._produced = RateGauge(broker.clock)
        self._consumed = RateGauge(broker.clock)
        self._times = RateGauge(broker.clock)
        self._connections = RateGauge(broker.clock)
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.is_active = False
        """Whether requests are limited in any way."""
        self._quotas.on_change(self._changed)
        self._changed()

    def _changed(self) -> None:
        table = self._quotas.table
        self._produce_limits, self._fetch_limits = table(PRODUCED_BYTES), table(CONSUMED_BYTES)
        self._time_limits, self._mutation_limits = table(REQUEST_TIME), table(MUTATIONS)
        self._connection_limits = table(CONNECTIONS)
        self._buckets.clear()
        self.is_active = bool(self._produce_limits or self._fetch_limits or self._time_limits)

    # Requests

    def handle(
        self, request: memoryview, key: int, reply: Reply, connection: ConnectionState, handle: Dispatch
    ) -> None:
        """Deal with a request while there are limits."""
        user, client = connection.user, _client_of(request)
        if key == PRODUCE_KEY and (limit := self._produce_limits.of_client(user, client)) is not None:
            self.throttle(reply, self._produced.record(limit, len(request)))
        if key in (FETCH_KEY, SHARE_FETCH_KEY) and (limit := self._fetch_limits.of_client(user, client)) is not None:
            reply.allowance = FetchAllowance(self._consumed, limit, self)
        if (limit := self._time_limits.of_client(user, client)) is None:
            handle(key, request, reply, connection)
            return
        # What a request costs is known when it has been dealt with: it is the next one that waits for it.
        self.throttle(reply, min(self._times.excess_s(limit), WINDOW_S))
        begun = self._clock.monotonic()
        handle(key, request, reply, connection)
        self._times.record(limit, (self._clock.monotonic() - begun) * PERCENT)

    def throttle(self, reply: Reply, seconds: float) -> None:
        """The client is to wait: it is told so with this answer, and not read for so long."""
        milliseconds = min(int(seconds * 1000), THROTTLE_MS_MAX)
        if milliseconds <= 0:
            return
        reply.throttle_ms = max(reply.throttle_ms, milliseconds)
        reply.mute()
        self._clock.call_later(milliseconds / 1000, reply.unmute)

    # Changes of the catalog

    def mutations(self, user: str, client: str) -> MutationAllowance | None:
        """What a client may change of topics; None: as much as it likes."""
        limit = self._mutation_limits.of_client(user, client) if self._mutation_limits else None
        if limit is None:
            return None
        now = self._clock.monotonic()
        bucket = self._buckets.get(limit.bearer)
        if bucket is None:
            if len(self._buckets) >= BUCKETS_MAX:
                full = [bearer for bearer, kept in self._buckets.items() if kept.is_full(limit.number, now)]
                for bearer in full or [next(iter(self._buckets))]:
                    del self._buckets[bearer]
            bucket = self._buckets[limit.bearer] = TokenBucket(limit.number, now)
        return MutationAllowance(bucket, limit.number, self._clock.monotonic)

    # Connections

    def connection_wait_s(self, address: str) -> float:
        """How long a new connection from there must be kept waiting, before it is closed; 0: it is welcome."""
        limit = self._connection_limits.of_address(address) if self._connection_limits else None
        if limit is None:
            return 0.0
        excess_s = self._connections.record(limit, 1)
        if excess_s > 0:
            self._connections.record(limit, -1)
        return min(excess_s, WINDOW_S)


class MutationAllowance:
    """How many partitions a client may still create and delete."""

    def __init__(self, bucket: TokenBucket, rate: float, monotonic: Callable[[], float]) -> None:
        self._bucket = bucket
        self._rate = rate
        self._monotonic = monotonic

    def take(self, partitions: int, *, is_strict: bool) -> bool:
        """Whether a change of this size may be made; older versions are slowed down instead of refused (KIP-599)."""
        now = self._monotonic()
        if is_strict and self._bucket.overdrawn_s(self._rate, now) > 0:
            return False
        self._bucket.take(partitions, self._rate, now)
        return True

    def wait_s(self) -> float:
        """Until nothing is owed."""
        return self._bucket.overdrawn_s(self._rate, self._monotonic())


def _client_of(request: memoryview) -> str:
    """The client id of a request. Raises what decoding raises for one that is cut."""
    (length,) = _LENGTH.unpack_from(request, _CLIENT_LENGTH_AT)
    return str(request[10 : 10 + length], "utf-8") if length > 0 else ""
