"""How much of what is there one micro-batch takes."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition, fetch
from mainstem.wire.record_batch import batches_in, read_header

SAMPLE_BYTES_MAX = 4 << 20
"""What is looked at per partition and trigger to learn how large its next records are."""

Offsets = Mapping[TopicPartition, int]


def limit_rows(starts: Offsets, ends: Offsets, rows_max: int) -> dict[TopicPartition, int]:
    """Ends that hold at most this number of offsets in total, each partition in proportion to what it has."""
    sizes = {at: ends[at] - starts[at] for at in ends}
    total = sum(sizes.values())
    if total <= rows_max:
        return dict(ends)
    limited: dict[TopicPartition, int] = {}
    left = rows_max
    # the smallest first: what it does not need goes to the others, and each with anything gets one at least
    for at, size in sorted(sizes.items(), key=lambda entry: entry[1]):
        share = min(size, max(left * size // total, 1), left) if size else 0
        limited[at] = starts[at] + share
        left -= share
        total -= size
    return limited


def limit_bytes(client: Client, starts: Offsets, ends: Offsets, bytes_max: int) -> dict[TopicPartition, int]:
    """Ends that hold about this number of stored bytes in total; never less than one batch, so that the stream goes on.

    Where a partition's share is small it is exact, batch by batch; beyond that, the next records are taken to be as
    large as those looked at.
    """
    waiting = [at for at in ends if ends[at] > starts[at]]
    limited = dict(ends)
    left = bytes_max
    for index, at in enumerate(waiting):
        share = max(left // (len(waiting) - index), 0)
        if share == 0 and index:
            limited[at] = starts[at]
            continue
        limited[at], used = _reach(client, at, starts[at], ends[at], share)
        left = max(left - used, 0)
    return limited


def _reach(client: Client, at: TopicPartition, start: int, end: int, share: int) -> tuple[int, int]:
    sample = min(max(share, 1), SAMPLE_BYTES_MAX)
    fetched = client.retrying(lambda: fetch(client.leader(at), at, start, bytes_max=sample))
    reached, used = start, 0
    for position, size in batches_in(fetched.batches):
        if used and used + size > share:
            return min(reached, end), used
        used += size
        reached = read_header(fetched.batches, position).next_offset
        if reached >= end:
            return end, used
    if not used:
        return end, 0
    more = int((reached - start) * max(share - used, 0) / used)
    return min(reached + more, end), min(share, used + more)
