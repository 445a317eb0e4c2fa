"""Ports for brokers that are stopped and started again at the same address."""

import random
import socket
from pathlib import Path

LOWEST = 15_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def lasting_port() -> int:
    """A free one that the kernel does not give to clients.

    While the broker is down, a client that tries again and again is given a port of its own for each try, and one of them could
    be the broker's: it would then be connected to itself, and the broker could not listen.
    """
    highest = int(EPHEMERAL.read_text().split()[0]) if EPHEMERAL.exists() else 32_768
    while True:
        port = random.randrange(LOWEST, highest)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def lasting_address() -> str:
    """The same, with the host."""
    return f"127.0.0.1:{lasting_port()}"
