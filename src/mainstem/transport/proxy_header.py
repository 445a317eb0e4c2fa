"""The header of the PROXY protocol, versions 1 and 2: by it a proxy in front says who its client is.

Layout: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt. It is read only from proxies that the settings trust, since
a peer that may say it can claim to be anybody.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V1_START = b"PROXY "
V1_BYTES_MAX = 107
HEADER_BYTES_MAX = 4096
"""With all that a proxy tells of a certificate."""

_LOCAL, _PROXY = 0x20, 0x21
_TCP4, _TCP6 = 0x11, 0x21
_TLV_SSL, _TLV_COMMON_NAME = 0x20, 0x22
_CLIENT_SSL, _CLIENT_CERTIFICATE = 0x01, 0x02 | 0x04
"""The client spoke TLS; it showed a certificate in this connection, or in the session that this one resumed."""


class Malformed(ValueError):
    """These bytes are no such header."""


class ProxyHeader(NamedTuple):
    """What a proxy says of its client."""

    size: int
    """Bytes of the header; behind it is what the client says."""
    is_local: bool = False
    """The proxy speaks for itself, as to see whether we are there."""
    source: tuple[str, int] = ("", 0)
    target: tuple[str, int] = ("", 0)
    is_encrypted: bool = False
    """Whether the client spoke TLS to the proxy."""
    common_name: str = ""
    """Of the client's certificate, which the proxy has verified."""


def read_header(data: bytes) -> ProxyHeader | None:
    """The header at the beginning, None while it is not whole. Raises Malformed."""
    if data.startswith(SIGNATURE[: len(data)]):
        return _read_v2(data) if len(data) >= len(SIGNATURE) else None
    if data.startswith(V1_START[: len(data)]):
        return _read_v1(data)
    raise Malformed("there is no PROXY header")


def _read_v1(data: bytes) -> ProxyHeader | None:
    line, end, _ = data.partition(b"\r\n")
    if not end:
        if len(data) >= V1_BYTES_MAX:
            raise Malformed("a PROXY header of version 1 has no end")
        return None
    words = line.decode("latin-1").split(" ")
    size = len(line) + 2
    if len(words) >= 2 and words[1] == "UNKNOWN":
        return ProxyHeader(size, is_local=True)
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise Malformed("a PROXY header of version 1 has the wrong words")
    try:
        source, target = str(ipaddress.ip_address(words[2])), str(ipaddress.ip_address(words[3]))
        ports = _port(words[4]), _port(words[5])
    except ValueError:
        raise Malformed("a PROXY header of version 1 has no addresses") from None
    return ProxyHeader(size, source=(source, ports[0]), target=(target, ports[1]))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 0xFFFF:
        raise ValueError(text)
    return int(text)


def _read_v2(data: bytes) -> ProxyHeader | None:
    if len(data) < 16:
        return None
    command, family, length = struct.unpack_from(">BBH", data, 12)
    size = 16 + length
    if size > HEADER_BYTES_MAX:
        raise Malformed(f"a PROXY header of {size} bytes is over the limit of {HEADER_BYTES_MAX}")
    if len(data) < size:
        return None
    if command == _LOCAL:
        return ProxyHeader(size, is_local=True)
    if command != _PROXY:
        raise Malformed(f"a PROXY header of version 2 has the unknown command {command:#x}")
    width = {_TCP4: 4, _TCP6: 16}.get(family)
    if width is None:
        return ProxyHeader(size, is_local=True)  # As the specification says: the addresses are not used.
    place = 16 + 2 * width + 4
    if place > size:
        raise Malformed("a PROXY header of version 2 is too short for its addresses")
    source = str(ipaddress.ip_address(data[16 : 16 + width]))
    target = str(ipaddress.ip_address(data[16 + width : 16 + 2 * width]))
    ports = struct.unpack_from(">HH", data, place - 4)
    encrypted, common_name = _read_tls(data[place:size])
    return ProxyHeader(
        size,
        source=(source, ports[0]),
        target=(target, ports[1]),
        is_encrypted=encrypted,
        common_name=common_name,
    )


def _read_tls(fields: bytes) -> tuple[bool, str]:
    for kind, content in _tlvs(fields):
        if kind == _TLV_SSL:
            if len(content) < 5:
                raise Malformed("a PROXY header of version 2 cuts short what it says of TLS")
            flags, unverified = struct.unpack_from(">BI", content)
            names = [value for part, value in _tlvs(content[5:]) if part == _TLV_COMMON_NAME]
            is_shown = flags & _CLIENT_CERTIFICATE and not unverified
            try:
                return bool(flags & _CLIENT_SSL), names[0].decode() if is_shown and names else ""
            except UnicodeDecodeError:
                raise Malformed("the common name of a PROXY header is not UTF-8") from None
    return False, ""


def _tlvs(data: bytes) -> list[tuple[int, bytes]]:
    found, place = [], 0
    while place < len(data):
        if place + 3 > len(data):
            raise Malformed("a PROXY header of version 2 cuts a field short")
        kind, length = struct.unpack_from(">BH", data, place)
        place += 3
        if place + length > len(data):
            raise Malformed("a PROXY header of version 2 cuts a field short")
        found.append((kind, data[place : place + length]))
        place += length
    return found
