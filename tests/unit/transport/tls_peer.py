"""A TLS client over memory buffers, whose bytes a test sends as it likes, and a listener that speaks TLS."""

import socket
import ssl
import tempfile
from pathlib import Path

from mainstem.transport.entrance import Encryption
from mainstem.transport.listener import Security
from mainstem.transport.tls_credentials import Credentials, TlsSettings
from tests.support.serving import certificates

DIRECTORY = Path(tempfile.mkdtemp(prefix="mainstem-tls-"))


def security(encryption: Encryption = Encryption.ALWAYS, listener: str = "echo+tls", **settings: object) -> Security:
    """With the test's authority; settings as of `tls.`."""
    words = certificates.write(DIRECTORY)[1::2]
    files = dict(word.removeprefix("tls.").split("=", 1) for word in words)
    chosen = TlsSettings(**{**files, **settings})
    credentials = Credentials(chosen)
    return Security(
        encryption,
        credentials,
        credentials.terms(listener, ()),
        handshakes_max=chosen.handshakes_max,
        handshake_timeout_ms=chosen.handshake_timeout_ms,
    )


def client_context(identity: certificates.Identity | None = None, version: str = "") -> ssl.SSLContext:
    return certificates.client_context(DIRECTORY, identity, version)


class TlsPeer:
    """A blocking client that knows its own records."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, name: str = "localhost") -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)

    def hello(self) -> bytes:
        """The first bytes, unsent."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    def shake_hands(self, step: int = 1 << 20) -> None:
        """With its own bytes cut into pieces of this size."""
        while True:
            try:
                self.tls.do_handshake()
                self.send_sealed(step)
                return
            except ssl.SSLWantReadError:
                self.send_sealed(step)
                self.receive_sealed()

    def send_sealed(self, step: int = 1 << 20) -> None:
        data = self.outgoing.read()
        for place in range(0, len(data), step):
            self.socket.sendall(data[place : place + step])

    def receive_sealed(self) -> bool:
        data = self.socket.recv(65536)
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()
        return bool(data)

    def seal(self, data: bytes) -> bytes:
        """As records, unsent."""
        self.tls.write(data)
        return self.outgoing.read()

    def read(self, count: int) -> bytes:
        """`count` bytes, or fewer at the end of what the server says."""
        found = bytearray()
        while len(found) < count:
            try:
                piece = self.tls.read(count - len(found))
                if not piece:
                    break
                found += piece
            except ssl.SSLWantReadError:
                if not self.receive_sealed():
                    raise
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
        return bytes(found)

    def close(self) -> None:
        self.socket.close()
