"""Finding a position in a log: an edge, or a record by time or key, the slow way, batch by batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.storage.contract import Buffer, Edge, Found, KeyAfter, Place
from mainstem.storage.sequencer.log_state import LogState
from mainstem.wire.record_batch import keys_in, open_batch, read_header

NOT_FOUND = Found(-1)


def find_edge(state: LogState, place: Place) -> Found | None:
    """A place that is known without a look at records; None if this one is not."""
    if place is Edge.START:
        return Found(state.visible_start)
    if place is Edge.END:
        return Found(state.end)
    if place is Edge.STABLE:
        return Found(state.stable)
    return None


def find_time(batches: Iterable[Buffer], timestamp_ms: int, start: int) -> Found:
    """The first record at or above `start` whose timestamp is at or after the given one."""
    for batch in batches:
        header = read_header(batch)
        if header.max_timestamp < timestamp_ms or header.is_control or header.next_offset <= start:
            continue
        for offset, time, _, _ in keys_in(*open_batch(batch)):
            if time >= timestamp_ms and offset >= start:
                return Found(offset, time)
    return NOT_FOUND


def find_newest(batches: Iterable[Buffer], start: int) -> Found:
    """The first record with the highest timestamp."""
    best = NOT_FOUND
    for batch in batches:
        header = read_header(batch)
        if header.max_timestamp <= best.timestamp_ms or header.is_control or header.next_offset <= start:
            continue
        for offset, time, _, _ in keys_in(*open_batch(batch)):
            if time > best.timestamp_ms and offset >= start:
                best = Found(offset, time)
    return best


def find_key(batches: Iterable[Buffer], place: KeyAfter, start: int) -> Found:
    """The first record at or above both offsets with this key and a timestamp within the range."""
    lowest = max(place.offset, start)
    for batch in batches:
        header = read_header(batch)
        if header.next_offset <= lowest or header.is_control:
            continue
        for offset, time, key, _ in keys_in(*open_batch(batch)):
            if key != place.key or offset < lowest:
                continue
            if place.since_ms is not None and time < place.since_ms:
                continue
            if place.until_ms is not None and time > place.until_ms:
                continue
            return Found(offset, time)
    return NOT_FOUND
