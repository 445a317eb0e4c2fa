"""Acknowledgements as requests write them, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mainstem.broker.subscriptions.subscriptions import LeaseVerdict, Ruling

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
VERDICTS = {
    GAP: LeaseVerdict.ACCEPT,  # there was no record: nothing to come back to
    ACCEPT: LeaseVerdict.ACCEPT,
    RELEASE: LeaseVerdict.RELEASE,
    REJECT: LeaseVerdict.REJECT,
    RENEW: LeaseVerdict.RENEW,
}


class InvalidAcknowledgement(ValueError):
    """Acknowledgements that contradict themselves."""


def read_verdicts(batches: Sequence[Any], may_renew: bool) -> list[Ruling]:
    """The verdicts of one partition, lowest offset first. Raises InvalidAcknowledgement."""
    rulings: list[Ruling] = []
    after = 0
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < after:
            raise InvalidAcknowledgement(f"offsets {first} to {last} are not in order")
        after = last + 1
        if not types:
            raise InvalidAcknowledgement("no acknowledge type")
        if len(types) not in (1, last - first + 1):
            raise InvalidAcknowledgement(f"{len(types)} acknowledge types for {last - first + 1} offsets")
        if not VERDICTS.keys() >= set(types) or (RENEW in types and not may_renew):
            raise InvalidAcknowledgement(f"acknowledge types {sorted(set(types))}")
        if len(types) == 1:
            rulings.append(Ruling(first, last, VERDICTS[types[0]]))
            continue
        for kind, run in groupby(types):
            count = len(list(run))
            rulings.append(Ruling(first, first + count - 1, VERDICTS[kind]))
            first += count
    return rulings
