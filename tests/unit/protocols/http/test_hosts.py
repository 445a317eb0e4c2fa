"""Names under which a broker that listens on loopback answers."""

import pytest

from mainstem.protocols.http.codec import Request
from mainstem.protocols.http.errors import MisdirectedRequest
from mainstem.wire.http.hosts import HostCheck, host_of
from tests.support.clients.http_client import Client, with_client


def is_served(host: str, listening: str = "127.0.0.1:8282", advertised: str = "127.0.0.1:8282") -> bool:
    try:
        HostCheck(lambda: [listening], lambda: [advertised])(Request("GET", "/", headers=((b"host", host.encode()),)))
    except MisdirectedRequest:
        return False
    return True


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8282", "127.0.0.1:1", "127.9.9.9", "[::1]:8282", "a.localhost", "localhost.", ""]
)
def test_names_of_this_machine_are_served(host: str) -> None:
    assert is_served(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8282", "127.0.0.1.evil.example", "localhost.evil", "0.0.0.0", "[fe80::1]"]
)
def test_other_names_are_not(host: str) -> None:
    assert not is_served(host)
    assert is_served(host, listening="0.0.0.0:8282"), "who listens for everybody is called by any name"
    assert is_served(host, listening="broker.example:8282")


def test_a_name_that_clients_are_told_is_served() -> None:
    assert is_served("broker.example", advertised="broker.example:443")


def test_hosts_of_addresses() -> None:
    assert [host_of(text) for text in ("A:1", "[::1]:2", "[::1]", "a.", "")] == ["a", "::1", "::1", "a", ""]


@with_client
async def test_a_request_for_another_is_421(client: Client) -> None:
    reply = await client.ask("GET", "/v1/topics", host="evil.example")
    assert (reply.status, reply.problem) == (421, "misdirected-request")


@with_client
async def test_a_page_of_another_site_changes_nothing(client: Client) -> None:
    """A browser sends a request without content for it, without asking first."""
    path = "/v1/queues/q/purge"
    for header in ("Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"):
        reply = await client.ask("POST", path, None, header)
        assert (reply.status, reply.problem) == (403, "cross-site-request")
        assert (await client.ask("GET", "/v1/topics", None, header)).status == 200
    for header in ("Origin: http://localhost", "Sec-Fetch-Site: same-origin", "Accept: */*"):
        reply = await client.ask("POST", path, None, header)
        assert (reply.status, reply.problem) == (404, "unknown-queue")
