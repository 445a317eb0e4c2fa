"""How far the start of a log may move: by age, by size, by acknowledgement, and combined. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.storage.contract import LogConfig


def retained_start(
    config: LogConfig,
    *,
    start: int,
    floor: int,
    end: int,
    total_bytes: int,
    stretches: Iterable[tuple[int, int, int]],
    now_ms: int,
    full: bool = False,
) -> int:
    """The new start of a log, on a disk that is `full` or not.

    `stretches` are what is deleted as a whole, oldest first: (offset after it, bytes, highest timestamp). They are only looked at
    as far as needed. `end` is what may go at most; total_bytes is the size of all of them.
    """
    new_start = max(start, min(floor, end)) if releases(config, full=full) else start
    if not config.delete or (config.retention_ms is None and config.retention_bytes is None):
        return new_start
    expired_before = None if config.retention_ms is None else now_ms - config.retention_ms
    excess = -1 if config.retention_bytes is None else total_bytes - config.retention_bytes
    hold = config.acknowledged == "hold"
    for next_offset, size, time in stretches:
        too_old = expired_before is not None and time < expired_before
        if not too_old and excess < size:
            break
        if next_offset > end or (hold and next_offset > floor):
            break
        new_start = max(new_start, next_offset)
        excess -= size
    return new_start


def releases(config: LogConfig, *, full: bool) -> bool:
    """Whether what is below the floor goes at once: on a full disk also what was only held for a while."""
    if config.acknowledged == "hold":
        return full and config.delete and (config.retention_ms is not None or config.retention_bytes is not None)
    return config.acknowledged == "release"


CLASS_DEFAULT, CLASS_COMPACTED, CLASS_BY_AGE = 0, 1, 2


def retention_class(config: LogConfig) -> int:
    """Logs of one class share runs: they die at about the same time, or are rewritten together."""
    if config.compact:
        return CLASS_COMPACTED
    if not config.delete or config.retention_ms is None:
        return CLASS_DEFAULT
    return CLASS_BY_AGE + config.retention_ms.bit_length() // 2
