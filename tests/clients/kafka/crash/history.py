"""What clients were told, what a reader found afterwards, and whether the two agree. Nothing here knows a client or a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.crashing.promises import Broken, check_order

Place = tuple[int, int]
"""Partition and offset."""
Found = Mapping[int, Sequence[tuple[int, bytes]]]
"""By partition, offsets and values in the order in which a reader was given them."""

TRANSACTION_PARTITIONS = 3
"""Every transaction writes its name once to each of them."""


@dataclass
class KafkaHistory:
    """What clients were told since the data directory was empty. Each field has one writing thread, or only grows."""

    acknowledged: dict[bytes, Place] = field(default_factory=dict)
    """Values of idempotent producers, `PRODUCER-NUMBER`, and where they were said to be."""
    commits: dict[bytes, bool] = field(default_factory=dict)
    """Transactions, `PRODUCER-NUMBER`, that their producer tried to commit, and whether it was told that they are."""
    aborts: set[bytes] = field(default_factory=set)
    """Transactions that their producer never tried to commit."""
    group_offsets: dict[int, int] = field(default_factory=dict)
    """By partition, the furthest offset whose commit was answered."""
    group_values: set[bytes] = field(default_factory=set)
    """Values of idempotent producers that the group was given."""
    group_transactions: set[bytes] = field(default_factory=set)
    """Transactions that the group was given, reading only what is committed."""
    share_values: set[bytes] = field(default_factory=set)
    """Values of idempotent producers that the share group was given."""
    share_settled: set[bytes] = field(default_factory=set)
    """Those of them whose acknowledgement was answered."""
    share_repeated: set[bytes] = field(default_factory=set)
    """Those that were given once more after that."""


def check_values(history: KafkaHistory, found: Found) -> None:
    """All that was acknowledged is where it was said to be, once, in the order of its producer; and the group saw it."""
    flat = {(partition, offset): value for partition, entries in found.items() for offset, value in entries}
    for value, place in history.acknowledged.items():
        if flat.get(place) != value:
            raise Broken(f"{value!r} was acknowledged at {place}; there is {flat.get(place)!r}")
    for partition, entries in found.items():
        check_order(f"partition {partition}", [value for _, value in entries])
    twice = [value for value, count in Counter(flat.values()).items() if count > 1]
    if twice:
        raise Broken(f"stored twice in spite of idempotence: {twice[:5]}")
    check_group(history.group_values, set(flat.values()))
    check_group(history.share_values, set(flat.values()))
    if history.share_repeated:
        raise Broken(f"acknowledged, and given again: {sorted(history.share_repeated)[:5]}")


def check_transactions(history: KafkaHistory, found: Found) -> None:
    """Of what is read as committed, every transaction is whole, was not aborted, and none that was answered is missing."""
    copies = Counter((value, partition) for partition, entries in found.items() for _, value in entries)
    widths = Counter(value for value, _ in copies)
    for (value, partition), count in copies.items():
        if count > 1:
            raise Broken(f"transaction {value!r} is {count} times in partition {partition}")
    for value, width in widths.items():
        if value in history.aborts:
            raise Broken(f"transaction {value!r} was aborted, and is read")
        if width != TRANSACTION_PARTITIONS:
            raise Broken(f"transaction {value!r} is torn: in {width} of {TRANSACTION_PARTITIONS} partitions")
    for value, answered in history.commits.items():
        if answered and value not in widths:
            raise Broken(f"the commit of transaction {value!r} was answered, and it is not read")
    check_group(history.group_transactions, set(widths))


def check_transaction_offsets(found: Found, offsets: Mapping[bytes, int]) -> None:
    """The offset that a producer commits in each transaction is that of its last one that is read."""
    last: dict[bytes, int] = {}
    for entries in found.values():
        for _, value in entries:
            producer, _, number = value.partition(b"-")
            last[producer] = max(last.get(producer, -1), int(number))
    for producer, offset in offsets.items():
        if offset != last.get(producer):
            raise Broken(f"producer {producer!r} has offset {offset}, its last transaction is {last.get(producer)}")


def check_group(given: set[bytes], found: set[bytes]) -> None:
    """A group that commits behind what it was given is given everything, and nothing that is not there."""
    if given - found:
        raise Broken(f"given to the group, and gone: {sorted(given - found)[:5]}")
    if found - given:
        raise Broken(f"never given to the group: {sorted(found - given)[:5]}")


def check_offsets(answered: Mapping[int, int], found: Mapping[int, int]) -> None:
    """No committed offset goes back behind one whose commit was answered before."""
    for partition, offset in answered.items():
        if found.get(partition, -1) < offset:
            raise Broken(
                f"partition {partition}: offset {offset} was committed, the broker says {found.get(partition)}"
            )
