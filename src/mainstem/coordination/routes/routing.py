"""Following a message through exchanges to queues."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mainstem.coordination.routes.binding import DestinationKind
from mainstem.coordination.routes.errors import UnknownExchange
from mainstem.coordination.routes.matchers import Facts
from mainstem.coordination.routes.table import RouteTable

DELAY_HEADER = "x-delay"
DELAY_MS_MAX = (1 << 32) - 1
"""Longer ones are not delays in the x-delayed-message exchange (49 days); they are refused there and routed at once."""


class Delayed(NamedTuple):
    """An exchange keeps the message for so long, and routes it then."""

    exchange: str
    delay_ms: int


class Routed(NamedTuple):
    """Where a message goes: to each of these once."""

    queues: tuple[str, ...]
    delayed: tuple[Delayed, ...] = ()
    cacheable: bool = True
    """Whether exchange and key alone decided: then it is so for every message with these, until the generation changes."""


def no_facts() -> Mapping[str, object]:
    """Of a message without headers or properties."""
    return {}


def follow(
    table: RouteTable, exchange: str, keys: Sequence[str], headers: Facts, properties: Facts, *, due: bool
) -> Routed:
    """Where a message with these keys goes. Raises UnknownExchange.

    `due` means: what the first exchange had to wait for is over.
    """
    if not exchange:
        return Routed(tuple(dict.fromkeys(keys)))
    if table.find(exchange) is None:
        raise UnknownExchange(exchange)
    keys = tuple(dict.fromkeys(keys))
    queues: dict[str, None] = {}
    delayed: list[Delayed] = []
    by_keys_alone = True
    seen = {exchange}
    waiting = [exchange]
    while waiting:
        name = waiting.pop()
        here = table.find(name)
        if here is None:
            continue  # An alternate exchange need not be there.
        if not name:
            queues |= dict.fromkeys(keys)
            continue
        if here.is_delayed:
            by_keys_alone = False
            delay_ms = 0 if due and name == exchange else delay_of(headers())
            if delay_ms > 0:
                delayed.append(Delayed(name, delay_ms))
                continue
        matcher = table.matcher(name)
        by_keys_alone = by_keys_alone and matcher.by_key_alone
        asked = keys if matcher.uses_key else keys[:1]
        matched = {b.serial: b for key in asked for b in matcher.match(key, headers, properties)}.values()
        queues |= {b.destination.name: None for b in matched if b.destination.kind is DestinationKind.QUEUE}
        following = [b.destination.name for b in matched if b.destination.kind is DestinationKind.EXCHANGE]
        if not matched:
            alternate = here.alternate or table.alternate_by_policy(name)
            following = [] if alternate is None else [alternate]
        for name in following:
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return Routed(tuple(queues), tuple(delayed), by_keys_alone)


def delay_of(headers: Mapping[str, object]) -> int:
    """How long to keep a message, in ms; 0 or less: not at all."""
    wanted = headers.get(DELAY_HEADER)
    if isinstance(wanted, str):
        try:
            wanted = int(wanted)
        except ValueError:
            return 0
    if isinstance(wanted, bool) or not isinstance(wanted, int | float) or math.isnan(wanted):
        return 0
    return int(wanted) if 0 < wanted <= DELAY_MS_MAX else 0
