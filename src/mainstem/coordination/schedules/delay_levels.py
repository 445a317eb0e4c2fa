"""RocketMQ's delay levels: delays that are asked for by number."""

from __future__ import annotations

_S, _M, _H = 1_000, 60_000, 3_600_000

DELAY_LEVELS_MS: tuple[int, ...] = (
    1 * _S, 5 * _S, 10 * _S, 30 * _S,
    1 * _M, 2 * _M, 3 * _M, 4 * _M, 5 * _M, 6 * _M, 7 * _M, 8 * _M, 9 * _M, 10 * _M, 20 * _M, 30 * _M,
    1 * _H, 2 * _H,
)  # fmt: skip
"""Level 1 is the first."""


def level_delay_ms(level: int) -> int:
    """How long a message of this level waits: 0 or less is at once, above the highest is the highest, as RocketMQ has it."""
    return DELAY_LEVELS_MS[min(level, len(DELAY_LEVELS_MS)) - 1] if level > 0 else 0
