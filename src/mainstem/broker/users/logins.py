"""Proofs of who a client is, and what slows those who guess.

Three things are counted: wrong passwords for a user from one address, for a user from all addresses, and from an address for all
users. Above its free number each waits before the next password is looked at: one second, then twice as long each time. Only what
a user's address has free counts towards the other two. So who guesses one user's password from one address is slowed alone:
neither the same user elsewhere nor another user at that address waits.

Passwords are looked at one after the other, most of them by a thread: who asks on a thousand connections at once is slowed by
the first answers as if it had asked on one.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mainstem.broker.clock import Clock

log = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, str]
"""User and address; one of them is empty where it stands for all."""
Check: TypeAlias = Callable[[], "bool | asyncio.Future[bool]"]
"""Whether it is right: at once, or when a thread has found out."""
Done: TypeAlias = Callable[[bool], None]

FREE_OF_PAIR = 10
"""Wrong passwords for one user from one address before anybody waits."""
FREE_OF_ALL = 100
"""The same for one user from all addresses, and for one address and all users."""
WAIT_S, WAIT_S_MAX = 1.0, 30.0
BOOKED_S_MAX = 60.0
"""Who would wait longer is refused, unchecked."""
WAITING_MAX = 1_024
"""Clients that wait for a look at their password, in all; others are refused, unchecked."""
HELD_S = 1.0
"""Who is refused unchecked is told so after this time, so that a flood of guesses is no faster than its connections."""
HELD_MAX = 4_096
"""Of those; others are told at once."""
FORGOTTEN_S = 600.0
"""Without a wrong password for so long, all is free again."""
OFFENDERS_MAX = 10_000
PROVEN_MAX = 10_000
"""Users with addresses that have proven themselves: others with the same name or address do not slow them."""
NAME_CHARACTERS_MAX = 64
LINES_MAX = 20
"""In the log, for each minute; the others are counted."""
MINUTE_S = 60.0


class Offender:
    """What is known of wrong passwords of one key."""

    __slots__ = ("failures", "free", "last_at", "next_at")

    def __init__(self, free: int) -> None:
        self.free = free
        self.failures = 0
        self.last_at = 0.0
        self.next_at = 0.0
        """When the next password may be looked at."""

    @property
    def is_slowed(self) -> bool:
        """Whether nothing is free any more."""
        return self.failures >= self.free

    def book(self, now: float) -> float | None:
        """How long the next attempt waits; None: longer than anybody may."""
        at = max(now, self.next_at)
        if at - now > BOOKED_S_MAX:
            return None
        self.next_at = at + self._wait_s()
        return at - now

    def failed(self, now: float) -> None:
        """One more wrong password."""
        self.failures += 1
        self.last_at = now
        if self.is_slowed:
            self.next_at = max(self.next_at, now + self._wait_s())

    def _wait_s(self) -> float:
        return min(WAIT_S_MAX, WAIT_S * 2.0 ** min(self.failures - self.free, 16))


class Attempt(NamedTuple):
    """One proof that is to be looked at."""

    protocol: str
    name: str
    host: str
    check: Check
    done: Done
    has_waited: bool = False


class Logins:
    """All attempts, of every protocol."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: deque[Attempt] = deque()
        self._is_checking = False
        self._offenders: OrderedDict[Key, Offender] = OrderedDict()
        self._proven: OrderedDict[Key, None] = OrderedDict()
        self.waiting = 0
        self.held = 0
        """Those that are refused, and not told so yet."""
        self.failures: Counter[str] = Counter()
        """Wrong passwords by protocol."""
        self.delayed: Counter[str] = Counter()
        """Attempts that waited before they were looked at."""
        self.unchecked: Counter[str] = Counter()
        """Attempts that were refused and not looked at."""
        self._line_minute = -1.0
        self._lines = 0

    def prove(self, protocol: str, name: str, host: str, check: Check, done: Done) -> None:
        """Check when it is time, which is mostly now; `done` is told whether it was right."""
        self._queue.append(Attempt(protocol, name, host, check, done))
        self._go_on()

    def is_free(self, name: str, host: str) -> bool:
        """Whether a proof would be looked at without a wait."""
        now = self._clock.monotonic()
        pair = _key(name, host)
        if self._find(pair, now) is not None:
            return False
        return pair in self._proven or not any(self._find(key, now) for key in ((pair[0], ""), ("", pair[1])))

    def failed(self, protocol: str, name: str, host: str) -> None:
        """A proof was wrong."""
        now = self._clock.monotonic()
        pair = _key(name, host)
        self.failures[protocol] += 1
        offender = self._offender(pair, FREE_OF_PAIR)
        if not offender.is_slowed:
            self._offender((pair[0], ""), FREE_OF_ALL).failed(now)
            self._offender(("", pair[1]), FREE_OF_ALL).failed(now)
        offender.failed(now)
        self._tell(protocol, name, host)

    def refused(self, protocol: str, name: str, host: str) -> None:
        """A proof was wrong that nobody can guess, so that it slows nobody: a token, or a certificate."""
        self.failures[protocol] += 1
        self._tell(protocol, name, host)

    @property
    def offenders(self) -> int:
        """How many are remembered."""
        return len(self._offenders)

    def _go_on(self) -> None:
        while self._queue and not self._is_checking:
            attempt = self._queue.popleft()
            wait_s = 0.0 if attempt.has_waited else self._wait_s(_key(attempt.name, attempt.host))
            if wait_s is None or (wait_s and self.waiting >= WAITING_MAX):
                self.unchecked[attempt.protocol] += 1
                self._tell(attempt.protocol, attempt.name, attempt.host)
                self._refuse(attempt)
            elif wait_s:
                self.delayed[attempt.protocol] += 1
                self.waiting += 1
                self._clock.call_later(wait_s, functools.partial(self._waited, attempt._replace(has_waited=True)))
            else:
                self._check(attempt)

    def _refuse(self, attempt: Attempt) -> None:
        if self.held >= HELD_MAX:
            attempt.done(False)
            return

        def tell() -> None:
            self.held -= 1
            attempt.done(False)

        self.held += 1
        self._clock.call_later(HELD_S, tell)

    def _waited(self, attempt: Attempt) -> None:
        self.waiting -= 1
        self._queue.append(attempt)
        self._go_on()

    def _check(self, attempt: Attempt) -> None:
        answer = attempt.check()
        if isinstance(answer, bool):
            self._checked(attempt, answer)
            return
        self._is_checking = True

        def found_out(answer: asyncio.Future[bool]) -> None:
            self._is_checking = False
            if answer.cancelled() or answer.exception() is not None:
                # The broker ends, or fails in this: nothing is known of the password.
                attempt.done(False)
            else:
                self._checked(attempt, answer.result())
            self._go_on()

        answer.add_done_callback(found_out)

    def _checked(self, attempt: Attempt, is_right: bool) -> None:
        if is_right:
            pair = _key(attempt.name, attempt.host)
            self._offenders.pop(pair, None)
            self._proven[pair] = None
            self._proven.move_to_end(pair)
            if len(self._proven) > PROVEN_MAX:
                self._proven.popitem(last=False)
        else:
            self.failed(attempt.protocol, attempt.name, attempt.host)
        attempt.done(is_right)

    def _wait_s(self, pair: Key) -> float | None:
        now = self._clock.monotonic()
        offender = self._find(pair, now)
        if offender is not None:
            return offender.book(now)
        if pair in self._proven:
            return 0.0
        waits = [found.book(now) for key in ((pair[0], ""), ("", pair[1])) if (found := self._find(key, now))]
        return None if None in waits else max((wait for wait in waits if wait is not None), default=0.0)

    def _find(self, key: Key, now: float) -> Offender | None:
        """The one that is slowed."""
        found = self._offenders.get(key)
        if found is None:
            return None
        if now - max(found.last_at, found.next_at) > FORGOTTEN_S:
            del self._offenders[key]
            return None
        return found if found.is_slowed else None

    def _offender(self, key: Key, free: int) -> Offender:
        found = self._offenders.get(key)
        if found is None:
            found = self._offenders[key] = Offender(free)
            if len(self._offenders) > OFFENDERS_MAX:
                self._offenders.popitem(last=False)
        else:
            self._offenders.move_to_end(key)
        return found

    def _tell(self, protocol: str, name: str, host: str) -> None:
        now = self._clock.monotonic()
        if self._line_minute < 0 or now - self._line_minute >= MINUTE_S:
            if self._lines > LINES_MAX:
                log.warning("%d more logins were refused in the minute before", self._lines - LINES_MAX)
            self._line_minute, self._lines = now, 0
        self._lines += 1
        if self._lines <= LINES_MAX:
            log.warning("%s login refused: user %r from %s", protocol, name[:NAME_CHARACTERS_MAX], host or "here")


def _key(name: str, host: str) -> Key:
    """One network of IPv6 counts as one address: who has one has 2**64 of them."""
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return name[:256], host
        if address.ipv4_mapped is not None:
            return name[:256], str(address.ipv4_mapped)
        return name[:256], address.packed[:8].hex()
    return name[:256], host
