"""A transport without sockets: keeps the session contract to the letter, and checks that the session does."""

from collections.abc import Callable

from mainstem.transport.session import OpenSession

PROGRESS_CALLS_MAX = 100_000


class Driver:
    """One session, the bytes that it has not consumed, and what it said."""

    def __init__(self, open_session: OpenSession, settle: Callable[[], None] = lambda: None) -> None:
        self.woken = False
        self.output = bytearray()
        self._unconsumed = bytearray()
        self._settle = settle
        self.session = open_session(self._wake)
        self._collect()

    def _wake(self) -> None:
        self.woken = True

    def feed(self, data: bytes) -> None:
        """Bytes have come."""
        if not self.session.finished:
            self._unconsumed += data
            self.pump()

    def pump(self) -> None:
        """Let the session work until it waits for input or for an answer of ours, and complete those answers."""
        for _ in range(PROGRESS_CALLS_MAX):
            self._advance()
            self.woken = False
            self._settle()
            self._collect()
            if not self.woken:
                return
        raise AssertionError("the session never comes to rest")

    def _advance(self) -> None:
        while not self.session.finished:
            wanted = self.session.input_wanted
            size = len(self._unconsumed)
            if wanted is None or size < wanted:
                return
            consumed = self.session.data_received(memoryview(bytearray(self._unconsumed)))
            assert 0 <= consumed <= size
            del self._unconsumed[:consumed]
            spoke = self._collect()
            wanted = self.session.input_wanted
            if not consumed and not spoke:
                assert self.session.finished or wanted is None or wanted > size, "neither progress nor a reason to wait"
                return

    def end_input(self) -> None:
        """The peer has closed its half."""
        if not self.session.finished:
            self.session.input_ended()
            self.pump()

    def _collect(self) -> bool:
        parts = self.session.take_output()
        for part in parts:
            self.output += part
        return bool(parts)
