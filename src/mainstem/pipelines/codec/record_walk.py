"""From record to record of a batch: each says how long it is, and so where the next one is.

The one thing about a record that cannot be asked of all at once. Compiled where it can be.
"""

from __future__ import annotations

from mainstem.wire.errors import MalformedRecords

LENGTH_SHIFT_MAX = 28
"""A length has 32 bits, in at most five bytes."""


def walk_records(content: bytes, position: int, end: int, count: int, starts: list[int], ends: list[int]) -> None:
    """Adds where each of `count` records begins (behind its length) and ends; they must fill the stretch exactly."""
    try:
        for _ in range(count):
            length = content[position]
            position += 1
            if length > 0x7F:
                byte = content[position]
                position += 1
                length = length & 0x7F | byte << 7
                shift = 14
                while byte > 0x7F:
                    if shift > LENGTH_SHIFT_MAX:
                        raise MalformedRecords("the length of a record has more than 32 bits")
                    length ^= 0x80 << shift - 7
                    byte = content[position]
                    position += 1
                    length |= byte << shift
                    shift += 7
            starts.append(position)
            if length & 1:
                raise MalformedRecords("a record of negative length")
            position += length >> 1
            ends.append(position)
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    if position != end:
        raise MalformedRecords(f"the records end at {position} instead of {end}")
