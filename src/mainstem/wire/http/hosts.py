"""For whom a request was meant.

A page in a browser can make its own name resolve to 127.0.0.1 and so talk to a broker that listens only there, as if it
were the page's own server (DNS rebinding). The browser still says the page's name in `Host`. So where we listen on
loopback alone, only names that mean this machine are answered.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection

from mainstem.wire.http.errors import MisdirectedRequest
from mainstem.wire.http.messages import Request


class HostCheck:
    """Raises for requests to other hosts. `listening` and `advertised` are addresses, HOST:PORT."""

    def __init__(self, listening: Callable[[], Collection[str]], advertised: Callable[[], Collection[str]]) -> None:
        self._listening = listening
        self._advertised = advertised
        self._known: frozenset[str] | None = None

    def __call__(self, request: Request) -> None:
        """Whether we are meant. Raises MisdirectedRequest."""
        if self._known is None:
            self._known = self._find_known()
        if not self._known:
            return
        host = host_of(request.header(b"host") or "")
        if host and host not in self._known and not is_this_machine(host):
            raise MisdirectedRequest(f"{host} is not served here; the advertise setting can name it")

    def _find_known(self) -> frozenset[str]:
        """Names that are served, or none: then all are."""
        hosts = {host_of(address) for address in self._listening()}
        if not hosts or not all(is_this_machine(host) for host in hosts):
            return frozenset()
        return frozenset(hosts | {host_of(address) for address in self._advertised()})


def host_of(address: str) -> str:
    """The host of HOST, HOST:PORT or [IPV6]:PORT, in lower case."""
    if address.startswith("["):
        return address[1:].partition("]")[0].lower()
    return address.partition(":")[0].rstrip(".").lower()


def is_this_machine(host: str) -> bool:
    """Whether a host name or address means this machine and no other."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
