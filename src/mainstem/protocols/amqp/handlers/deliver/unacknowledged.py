"""Deliveries of one channel that wait for their acknowledgement, by tag. Compiled where it can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainstem.broker.queues import Message


class Unacknowledged:
    """Messages by delivery tag, in the order in which they were delivered. `Message.holder` is who has each."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, tag: int, holder: object, messages: list[Message]) -> None:
        """They are delivered, under this tag and those that follow it."""
        waiting = self._messages
        for message in messages:
            message.holder = holder
            waiting[tag] = message
            tag += 1

    def oldest(self) -> int:
        """The lowest tag; 0: nothing waits."""
        return next(iter(self._messages), 0)

    def __contains__(self, tag: int) -> bool:
        return tag in self._messages

    def __getitem__(self, tag: int) -> Message:
        return self._messages[tag]

    def until(self, tag: int) -> list[int]:
        """The tags up to this one; 0: all."""
        if not tag:
            return list(self._messages)
        tags: list[int] = []
        for known in self._messages:
            if known > tag:
                break
            tags.append(known)
        return tags

    def take(self, tags: list[int]) -> list[Message]:
        """The messages of these tags, up to the first that is not known; they wait no longer."""
        waiting = self._messages
        taken: list[Message] = []
        for tag in tags:
            message = waiting.pop(tag, None)
            if message is None:
                break
            taken.append(message)
        return taken

    def restore(self, entries: Iterable[tuple[int, Message]]) -> None:
        """Those of a transaction that was rolled back wait again, each in its place."""
        self._messages = dict(sorted((self._messages | dict(entries)).items()))

    def take_all(self) -> list[Message]:
        """All that is here; nothing waits any longer."""
        messages, self._messages = self._messages, {}
        return list(messages.values())


def shares(messages: list[Message]) -> list[tuple[Any, int]]:
    """How many of them each holder has: one entry for a row of messages of the same."""
    found: list[tuple[Any, int]] = []
    count = 0
    last: Any = None
    for message in messages:
        if message.holder is not last:
            if count:
                found.append((last, count))
            last = message.holder
            count = 0
        count += 1
    if count:
        found.append((last, count))
    return found
