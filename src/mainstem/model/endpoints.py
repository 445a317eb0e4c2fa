"""What a session is told of its connection: where both ends are, by which listener it came, and who proved what by TLS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

TLS_SUFFIX = "+tls"
"""Behind the name of a protocol: a listener of it that takes nothing but TLS."""


class ClientCertificate(NamedTuple):
    """Who the client is by a certificate that an authority we trust has signed. Checked before a session hears of it."""

    subject: str
    """The distinguished name, as RFC 2253 writes it: the most specific part first."""
    common_name: str = ""
    """The first `CN` of the subject."""
    alternative_names: tuple[tuple[str, str], ...] = ()
    """Kind and value of each: `dns`, `email`, `uri` or `ip`."""
    user: str = ""
    """The name of the user, which the rules of the settings made of the certificate."""


class Endpoints(NamedTuple):
    """The peer's address and ours; empty where they are not known, as with a socket in the file system."""

    peer_host: str = ""
    peer_port: int = 0
    host: str = ""
    port: int = 0
    listener: str = ""
    """The listener's name: that of the protocol, or `PROTOCOL+tls` where all of it is encrypted."""
    is_encrypted: bool = False
    """Whether others on the way cannot read it; also by a proxy we trust, which took the TLS of the client."""
    certificate: ClientCertificate | None = None
    """The client's, where it showed one. None says that the client proved nothing by TLS."""

    def __str__(self) -> str:
        return f"{self.peer} -> {_address(self.host, self.port)}"

    @property
    def peer(self) -> str:
        """Where the client is."""
        return _address(self.peer_host, self.peer_port)


UNKNOWN = Endpoints()


def is_of(protocol: str, listener: str) -> bool:
    """Whether the listener of this name speaks the protocol."""
    return listener in (protocol, protocol + TLS_SUFFIX)


def address_to_tell(advertised: Mapping[str, Sequence[str]], protocol: str, endpoints: Endpoints) -> str | None:
    """Where the client of this connection finds a protocol: on the listener by which it came, else on one that is encrypted
    as this connection is, else on any; None where the protocol does not listen.
    """
    encrypted = protocol + TLS_SUFFIX
    names = [encrypted, protocol] if endpoints.is_encrypted else [protocol, encrypted]
    if endpoints.listener in names:
        names.insert(0, endpoints.listener)
    return next((told[0] for name in names if (told := advertised.get(name))), None)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
