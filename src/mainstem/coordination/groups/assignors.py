"""Who works on which partition, decided by the broker. Pure functions of what members subscribe to and hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TypeAlias

from mainstem.coordination.groups.group_offsets import TopicPlace
from mainstem.coordination.groups.topology import TopicShape

Subscriptions: TypeAlias = Mapping[str, Set[str]]
"""The topics that each member asks for, by name; members in a lasting order."""
Shares: TypeAlias = dict[str, set[TopicPlace]]
Assignor: TypeAlias = Callable[[Subscriptions, Mapping[str, TopicShape], Mapping[str, Set[TopicPlace]]], Shares]


def assign_uniform(
    subscriptions: Subscriptions, topics: Mapping[str, TopicShape], held: Mapping[str, Set[TopicPlace]]
) -> Shares:
    """As equal as subscriptions allow, moving as little as possible."""
    shares: Shares = {member: set() for member in subscriptions}
    for name, shape in topics.items():
        eligible = [member for member, wanted in subscriptions.items() if name in wanted]
        if not eligible:
            continue
        holders = {place.partition: m for m in eligible for place in held.get(m, ()) if place.topic == shape.id}
        for partition in range(shape.partitions):
            if (holder := holders.get(partition)) is not None:
                shares[holder].add(TopicPlace(shape.id, partition))
        for partition in range(shape.partitions):
            if partition not in holders:
                least = min(eligible, key=lambda member: len(shares[member]))
                shares[least].add(TopicPlace(shape.id, partition))
    _level(shares, subscriptions, topics)
    return shares


def _level(shares: Shares, subscriptions: Subscriptions, topics: Mapping[str, TopicShape]) -> None:
    """Move single partitions from who has more to who has at least two fewer, until there is no such pair."""
    eligible = {
        shape.id: [member for member, wanted in subscriptions.items() if name in wanted]
        for name, shape in topics.items()
    }
    moved = True
    while moved:
        moved = False
        for member, share in shares.items():
            for place in sorted(share, reverse=True):
                least = min(eligible[place.topic], key=lambda other: len(shares[other]))
                if len(share) - len(shares[least]) >= 2:
                    shares[member].remove(place)
                    shares[least].add(place)
                    moved = True


def assign_range(
    subscriptions: Subscriptions, topics: Mapping[str, TopicShape], held: Mapping[str, Set[TopicPlace]]
) -> Shares:
    """Of each topic one stretch for each member, so that equal partitions of several topics meet at one member."""
    shares: Shares = {member: set() for member in subscriptions}
    for name, shape in topics.items():
        eligible = sorted(member for member, wanted in subscriptions.items() if name in wanted)
        if not eligible:
            continue
        each, more = divmod(shape.partitions, len(eligible))
        first = 0
        for index, member in enumerate(eligible):
            after = first + each + (index < more)
            shares[member].update(TopicPlace(shape.id, partition) for partition in range(first, after))
            first = after
    return shares


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
DEFAULT_ASSIGNOR = "uniform"
