"""When a message is due: by a level, after a time, or at a time."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.broker.schedules.schedules import level_delay_ms
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.mapping.messages import DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_S, TIMER_DELIVER_MS

RETRY_LEVEL_FIRST = 3
"""The level of the first retry; each retry after it waits a level longer."""


def due_ms_of(properties: Mapping[str, str], now_ms: int) -> int | None:
    """None: at once. Raises RequestRefused."""
    for name, factor, base_ms in (
        (TIMER_DELIVER_MS, 1, 0),
        (TIMER_DELAY_S, 1_000, now_ms),
        (TIMER_DELAY_MS, 1, now_ms),
    ):
        text = properties.get(name)
        if text:
            if not (text.isascii() and text.isdecimal()) or len(text) > 16:
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"{name} is no number: {text[:40]!r}")
            due = base_ms + int(text) * factor
            return due if due > now_ms else None
    level = properties.get(DELAY_LEVEL)
    if not level:
        return None
    try:
        delay_ms = level_delay_ms(int(level))
    except ValueError:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"{DELAY_LEVEL} is no level: {level[:40]!r}") from None
    return now_ms + delay_ms if delay_ms else None


def retry_due_ms(level: int, reconsume_times: int, now_ms: int) -> int:
    """When a message that failed comes again."""
    return now_ms + level_delay_ms(level or RETRY_LEVEL_FIRST + reconsume_times)
