"""HOST:PORT."""

import pytest

from mainstem.transport.address import Address, InvalidAddress


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:8282", "127.0.0.1", 8282), ("broker.example:0", "broker.example", 0), ("[::1]:65535", "::1", 65535)],
)
def test_what_is_written_is_read_back(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert address == (host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "8282", ":8282", "host:", "host:http", "host:-1", "host:65536", "::1:80", "host:٣"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidAddress):
        Address.parse(text)


@pytest.mark.parametrize(
    ("host", "wildcard"),
    [("0.0.0.0", True), ("::", True), ("0:0::0", True), ("127.0.0.1", False), ("::1", False), ("localhost", False)],
)
def test_a_wildcard_names_no_machine(host: str, wildcard: bool) -> None:
    assert Address(host, 1).is_wildcard is wildcard
