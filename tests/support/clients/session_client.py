"""A client without sockets: hands bytes to one session, and takes what the session says."""

import asyncio

from mainstem.model.endpoints import Endpoints
from mainstem.transport.session import OpenSession, Session


class SessionClient:
    """One connection. A subclass says what its bytes mean."""

    def __init__(self, open_session: OpenSession, peer: str = "") -> None:
        self._woken = asyncio.Event()
        self.session: Session = open_session(self._woken.set, Endpoints(peer))
        self.output = bytearray()
        self.is_reading = True
        self._unconsumed = bytearray()

    def send_bytes(self, data: bytes | bytearray) -> None:
        self._unconsumed += data
        self.pump()

    def pump(self) -> None:
        """Let the session work until it waits for input or for the broker."""
        while not self.session.finished:
            wanted = self.session.input_wanted
            if wanted is None or len(self._unconsumed) < wanted:
                break
            used = self.session.data_received(memoryview(bytearray(self._unconsumed)))
            del self._unconsumed[:used]
            self.take()
            if not used and self.session.input_wanted != 0:
                break
        self.take()

    def take(self) -> None:
        """What the session says, unless we do not read."""
        if self.is_reading:
            for part in self.session.take_output():
                self.output += part

    async def wait_woken(self) -> None:
        """Until the session has something to say, and take it."""
        self._woken.clear()
        await self._woken.wait()
        self.pump()
