"""What clients were promised, and whether it was kept. A value is `SENDER-NUMBER`, and a sender counts up."""

from __future__ import annotations

from collections.abc import Iterable


class Broken(AssertionError):
    """A promise was not kept."""


def check_order(what: str, values: Iterable[bytes]) -> None:
    """The values of each sender stand in the order in which it sent them, none twice."""
    last: dict[bytes, int] = {}
    for value in values:
        sender, _, number = value.partition(b"-")
        if int(number) <= last.get(sender, -1):
            raise Broken(f"{what}: {value!r} follows number {last[sender]}")
        last[sender] = int(number)
