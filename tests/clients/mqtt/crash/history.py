"""What clients have sent and heard, and whether every promise was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.crashing.promises import Broken


class MqttHistory:
    """Of one broker's life, kills included."""

    def __init__(self) -> None:
        self.heard: dict[str, list[bytes]] = {}
        """By topic, in order."""
        self.mortals: list[Any] = []
        """Clients with a will, that were connected when the broker was killed."""


def check_once(what: str, values: Sequence[bytes], sent: int, sender: int = 0) -> None:
    """Each number exactly once, in order."""
    expected = [b"%d-%d" % (sender, number) for number in range(sent)]
    if list(values) != expected:
        missing, more = len(set(expected) - set(values)), len(values) - len(set(values))
        raise Broken(f"{what}: {missing} missing, {more} twice, of {sent}, or out of order")


def check_heard(what: str, values: Sequence[bytes], sent: int, sender: int = 0) -> None:
    """Each number at least once, and the first of each in order."""
    first = list(dict.fromkeys(values))
    if set(first) != {b"%d-%d" % (sender, number) for number in range(sent)}:
        raise Broken(f"{what}: {sent - len(first)} of {sent} are missing")
    if [int(value[2:]) for value in first] != sorted(int(value[2:]) for value in first):
        raise Broken(f"{what}: out of order")


def check_wills(heard: Mapping[str, Sequence[bytes]], count: int) -> None:
    """One of each client."""
    for number in range(count):
        if list(heard.get(f"wills/{number}", ())) not in ([b"gone"], [b"gone", b"gone"]):
            raise Broken(f"will {number} was heard {len(heard.get(f'wills/{number}', ()))} times")
