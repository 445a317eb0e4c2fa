"""The part of a log that a queue has in memory, and what of it was given out. Compiled where it can be; see `lane`.

    offsets   floor ........... tail ............... end
              |  settled, given  |  only in the log   |
              |  out, or ready   |                    |

Whatever is below `tail` is known: settled, given out (`unsettled`), or in `ready`, which is in the order of offsets. What lies
between `tail` and `end` is read when `ready` runs low. Messages that are published here, while nothing lies between, go
straight into `ready` and are never read. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from mainstem.wire.messages.message import Message

MESSAGE_BYTES = 200
"""Memory of a message in a window, besides its headers and its value."""
FEW_RETURNED = 8
"""Up to this many messages are put back one by one: their places are mostly near the head."""
AT_ONCE = 1
"""The expiry of a message that does not wait: a consumer that has room when it arrives gets it, or nobody."""


class Window:
    """Messages that are ready, and messages that were given out."""

    __slots__ = (
        "_ahead", "bytes_average", "count", "end", "given_out", "heads_max", "is_reading", "opened_at", "ready",
        "ready_bytes", "tail", "unsettled",
    )  # fmt: skip

    def __init__(self, tail: int, end: int) -> None:
        self.ready: deque[Message] = deque()
        self.ready_bytes = 0
        """Of their values."""
        self.heads_max = 0
        """The longest headers among them, since there were none."""
        self.bytes_average = 0
        """Of the messages that were read last: what is not in memory is taken to be like them."""
        self.unsettled: dict[int, Message] = {}
        """Given out, by offset."""
        self.tail = tail
        self.end = max(end, tail)
        """How far the log can be read, as far as we know."""
        self.opened_at = self.end
        """Where it ended when it was first used."""
        self.count = self.end - self.tail
        """Messages that are not settled; those that turn out not to be messages are taken off when they are read."""
        self.given_out = 0
        """Behind the highest offset that was given out since the start."""
        self.is_reading = False
        self._ahead: deque[tuple[int, list[Message]]] | None = None
        """What was published here while the log below was still being read: each with its first offset, without a gap."""

    @property
    def is_behind(self) -> bool:
        """Whether there is something in the log that is not in memory."""
        return self.tail < self.end

    @property
    def ready_count(self) -> int:
        """Messages waiting, in memory or not."""
        return self.count - len(self.unsettled)

    def extend(self, end: int) -> None:
        """The log has grown."""
        if end > self.end:
            self.count += end - self.end
            self.end = end

    # Coming in

    def has_room(self, messages: int, window: int) -> bool:
        """Whether a new message may go straight into memory, with `messages` others before it in the same batch."""
        waiting = len(self.ready) + messages
        return waiting < window and (
            self.tail == self.end or (self.is_reading and self.end - self.tail + waiting < window)
        )

    def holds_less(self, memory_bytes: int) -> bool:
        """Whether the ready messages take less memory than this. Of their headers the longest counts for all."""
        return self.ready_bytes + len(self.ready) * (MESSAGE_BYTES + self.heads_max) < memory_bytes

    def accept(self, base: int, count: int, messages: list[Message] | None) -> None:
        """What was published has got its offsets and is durable."""
        if base != self.end:
            return  # There is something of others in between: we shall be told how far it can be read.
        end = base + count
        self.count += count
        if messages is not None:
            if base == self.tail:
                self._take_in(base, messages)
            elif self.is_reading:
                if self._ahead is None:
                    self._ahead = deque()
                self._ahead.append((base, messages))
        self.end = end

    def catch_up(self) -> None:
        """The log was read up to the tail: go on with what was published here meanwhile."""
        ahead = self._ahead
        while ahead:
            base, messages = ahead[0]
            if base > self.tail:
                return
            ahead.popleft()
            if base == self.tail:
                self._take_in(base, messages)
            elif base + len(messages) > self.tail:
                break  # read in part
        self._ahead = None

    def _take_in(self, base: int, messages: list[Message]) -> None:
        offset, size = base, 0
        for message in messages:
            message.offset = offset
            offset += 1
            size += len(message.value)
        self.note_heads(messages)
        self.ready.extend(messages)
        self.ready_bytes += size
        self.bytes_average = size // len(messages)
        self.tail = offset

    def note_heads(self, messages: list[Message]) -> None:
        """Take the length of their headers into account; they are about to be ready."""
        longest = self.heads_max if self.ready else 0
        known: bytes | None = None
        for message in messages:
            headers = message.headers
            if headers is not known:  # mostly all of them share one block
                known = headers
                longest = max(longest, len(headers))
        self.heads_max = longest

    def drop_window(self, tail: int) -> None:
        """Forget what is in memory and ready; from this offset on it is to be read anew."""
        self.ready.clear()
        self.ready_bytes = 0
        self._ahead = None
        self.tail = tail

    # Going out

    def take(self, count: int, size: int, now_ms: int, expired: list[Message]) -> list[Message]:
        """Give out up to `count` messages and `size` bytes, but one at least.

        Expired messages are put aside; `now_ms=0` disables expiry.
        """
        ready, unsettled = self.ready, self.unsettled
        taken: list[Message] = []
        left = size
        while count > 0 and left > 0 and ready:
            message = ready.popleft()
            length = len(message.value)
            number = message.offset
            unsettled[number] = message
            if now_ms and AT_ONCE < message.expires_ms <= now_ms:
                expired.append(message)
                self.ready_bytes -= length
                continue
            taken.append(message)
            left -= length
            count -= 1
        self.ready_bytes -= size - left
        if taken and taken[-1].offset >= self.given_out:
            self.given_out = taken[-1].offset + 1
        return taken

    def let_go(self, messages: list[Message], done: list[int]) -> int:
        """They are done with: of those that are given out here the offsets are noted. Answers how many were."""
        unsettled = self.unsettled
        before = len(done)
        for message in messages:
            number = message.offset
            if message.lane is self and unsettled.get(number) is message:
                del unsettled[number]
                done.append(number)
        gone = len(done) - before
        self.count -= gone
        return gone

    def take_back(self, messages: Iterable[Message]) -> None:
        """Put messages that were given out to their places again; those that are to be read anew come with the others."""
        ready = self.ready
        returned = sorted([message for message in messages if message.offset < self.tail], key=_offset)
        self.ready_bytes += sum([len(message.value) for message in returned])
        if not ready or not returned or returned[-1].offset < ready[0].offset:
            ready.extendleft(reversed(returned))
            return
        if len(returned) > FEW_RETURNED:
            # Two sorted stretches: the sort merges them in one pass, where a search for each message would take a pass for each.
            merged = sorted([*returned, *ready], key=_offset)
            ready.clear()
            ready.extend(merged)
            return
        for message in returned:
            place = 0
            for other in ready:
                if other.offset > message.offset:
                    break
                place += 1
            ready.insert(place, message)


def _offset(message: Message) -> int:
    return message.offset
