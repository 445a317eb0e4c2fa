"""The TLS layer against a client that sends its bytes as it likes."""

import contextlib
import socket
import ssl
import struct
from pathlib import Path

import pytest

from mainstem.transport.client_identity import UserRules
from mainstem.transport.entrance import Encryption
from mainstem.transport.tls_credentials import Credentials, TlsSettings, TlsUnusable
from tests.support.serving import certificates
from tests.unit.transport.echo_session import FINISH, FLOOD, FLOOD_BYTES
from tests.unit.transport.tls_host import TlsHost, tls_hosting
from tests.unit.transport.tls_peer import TlsPeer, client_context, security

VERSIONS = ["1.2", "1.3"]
HANDSHAKE_RECORD = b"\x16\x03\x01"


def open_peer(host: TlsHost, version: str = "", step: int = 1 << 20) -> TlsPeer:
    peer = TlsPeer(host.listener.address, client_context(version=version))
    peer.shake_hands(step)
    return peer


def says_nothing_more(peer: TlsPeer) -> bool:
    """Whether the server has closed, politely or not."""
    try:
        return peer.read(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_records_may_be_split_anywhere(version: str, step: int) -> None:
    with tls_hosting(security()) as host:
        peer = open_peer(host, version, step)
        lines = b"".join(b"%d %s\n" % (index, b"x" * (index * 13 % 700)) for index in range(12))
        sealed = peer.seal(lines[:2000]) + peer.seal(lines[2000:])
        for place in range(0, len(sealed), step):
            peer.socket.sendall(sealed[place : place + step])
        assert peer.read(len(lines)) == lines
        endpoints = host.sessions[0].endpoints
        assert (endpoints.listener, endpoints.is_encrypted, endpoints.certificate) == ("echo+tls", True, None)
        peer.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_follows_the_handshake_at_once_is_not_lost(version: str) -> None:
    with tls_hosting(security()) as host:
        peer = TlsPeer(host.listener.address, client_context(version=version))
        while True:
            try:
                peer.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                peer.send_sealed()
                peer.receive_sealed()
        peer.tls.write(b"early\n")
        peer.send_sealed()
        assert peer.read(6) == b"early\n"
        peer.close()


def test_much_comes_and_goes_unchanged() -> None:
    with tls_hosting(security(), write_buffer_bytes_max=1 << 30) as host:
        peer = open_peer(host)
        line = bytes(range(11, 251)) * 20_000 + b"\n"
        peer.socket.sendall(peer.seal(line))
        assert peer.read(len(line)) == line
        peer.close()


def test_a_peer_that_does_not_read_is_bounded_and_served_when_it_does() -> None:
    with tls_hosting(security()) as host:
        peer = open_peer(host)
        asked = 60
        peer.socket.sendall(peer.seal(FLOOD * asked))
        host.until(lambda: "paused" in host.log)
        assert host.listener.traffic.sent_bytes < asked * FLOOD_BYTES / 4
        assert len(peer.read(asked * FLOOD_BYTES)) == asked * FLOOD_BYTES
        host.until(lambda: "resumed" in host.log)
        peer.close()
        host.until(lambda: host.listener.connections == 0)


def test_a_peer_that_never_reads_is_cut_in_the_end() -> None:
    with tls_hosting(security(), idle_timeout_ms=80) as host:
        peer = open_peer(host)
        peer.socket.sendall(peer.seal(FLOOD * 20))
        host.until(lambda: host.listener.traffic.reclaimed == 1)
        host.until(lambda: host.listener.connections == 0)
        peer.close()


def test_the_last_words_arrive_and_then_close_notify() -> None:
    with tls_hosting(security()) as host:
        peer = open_peer(host)
        peer.socket.sendall(peer.seal(FINISH))
        peer.socket.sendall(peer.seal(b"z" * (1 << 20)))
        assert peer.read(len(FINISH)) == FINISH
        assert peer.tls.read(1) == b"" if not peer.receive_sealed() else peer.read(1) == b""
        peer.close()
        host.until(lambda: host.listener.connections == 0)


def test_close_notify_ends_the_input_and_is_answered() -> None:
    with tls_hosting(security()) as host:
        peer = open_peer(host)
        peer.socket.sendall(peer.seal(b"a\nb\n"))
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.unwrap()
        peer.send_sealed()
        assert peer.read(4) == b"a\nb\n"
        while peer.receive_sealed():
            pass
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.unwrap()  # fails unless the server's close_notify has come
        host.until(lambda: "closed" in host.log)
        assert host.log.count("input ended") == 1
        peer.close()


def test_a_half_closed_peer_is_answered() -> None:
    with tls_hosting(security()) as host:
        peer = open_peer(host)
        peer.socket.sendall(peer.seal(b"a\nb\n"))
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.read(4) == b"a\nb\n"
        assert says_nothing_more(peer)
        host.until(lambda: "closed" in host.log)
        peer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(100),
        HANDSHAKE_RECORD + b"\xff\xff" + bytes(70_000),
        b"\x16\x03\x01\x00\x05hello",
    ],
)
def test_garbage_instead_of_a_handshake_is_closed(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with tls_hosting(security()) as host:
        with socket.create_connection(host.listener.address, timeout=10) as peer, contextlib.suppress(ConnectionError):
            peer.sendall(garbage)
            while peer.recv(1000):
                pass
        host.until(lambda: host.listener.traffic.handshakes_failed == 1)
        host.until(lambda: len(host.listener.handshakes) == 0)
        assert host.sessions == []
    assert "closed the connection of 127.0.0.1" in caplog.text


def test_garbage_in_a_record_gets_an_alert_and_ends_the_session() -> None:
    with tls_hosting(security()) as host:
        peer = open_peer(host)
        peer.socket.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
            peer.read(1)
        host.until(lambda: "closed" in host.log)
        host.until(lambda: host.listener.connections == 0)
        peer.close()


def test_the_end_in_the_middle_of_a_record_ends_the_session() -> None:
    with tls_hosting(security()) as host:
        peer = open_peer(host)
        peer.socket.sendall(peer.seal(b"a\n" * 100)[:50])
        peer.close()
        host.until(lambda: host.listener.connections == 0)
        assert not host.listener.open_connections()


def test_a_handshake_that_ends_early_leaves_nothing() -> None:
    with tls_hosting(security()) as host:
        peer = TlsPeer(host.listener.address, client_context())
        hello = peer.hello()
        peer.socket.sendall(hello[: len(hello) // 2])
        host.until(lambda: len(host.listener.handshakes) == 1)
        peer.close()
        host.until(lambda: len(host.listener.handshakes) == 0)
        assert host.sessions == []


def test_a_slow_handshake_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    # The idle timeout is long enough, and shortens the beat on which the time is looked at.
    with tls_hosting(security(handshake_timeout_ms=60), idle_timeout_ms=400) as host:
        silent, slow = (TlsPeer(host.listener.address, client_context()) for _ in range(2))
        slow.socket.sendall(slow.hello()[:20])
        assert silent.socket.recv(1) == b""
        assert slow.socket.recv(1) == b""
        host.until(lambda: len(host.listener.handshakes) == 0)
        silent.close()
        slow.close()
    assert "the handshake took longer than 60 ms" in caplog.text


def test_one_handshake_too_many_is_refused() -> None:
    with tls_hosting(security(handshakes_max=2)) as host:
        waiting = [TlsPeer(host.listener.address, client_context()) for _ in range(2)]
        host.until(lambda: len(host.listener.handshakes) == 2)
        third = TlsPeer(host.listener.address, client_context())
        with contextlib.suppress(ConnectionError):
            assert third.socket.recv(1) == b""
        assert host.listener.traffic.refused == 1
        waiting[0].shake_hands()
        host.until(lambda: len(host.listener.handshakes) == 1)
        open_peer(host).close()
        for peer in (*waiting, third):
            peer.close()


def test_draining_ends_handshakes_and_open_connections() -> None:
    with tls_hosting(security()) as host:
        peer, early = open_peer(host), TlsPeer(host.listener.address, client_context())
        host.until(lambda: len(host.listener.handshakes) == 1 and host.listener.connections == 1)
        host.call(host.listener.drain)
        assert early.socket.recv(1) == b""
        assert says_nothing_more(peer)
        peer.close()
        host.until(lambda: host.listener.connections == 0)
        early.close()


def test_old_versions_are_refused() -> None:
    with tls_hosting(security(minimum_version="1.3")) as host:
        peer = TlsPeer(host.listener.address, client_context(version="1.2"))
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
            peer.shake_hands()
        peer.close()


# Client certificates ------------------------------------------------------------------------------------------------


def shake_hands_as(host: TlsHost, identity: certificates.Identity | None) -> bool:
    """Whether the server goes on; over TLS 1.3 a client learns that only by the first answer."""
    peer = TlsPeer(host.listener.address, client_context(identity))
    try:
        peer.shake_hands()
        peer.socket.sendall(peer.seal(b"a\n"))
        return peer.read(2) == b"a\n"
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        peer.close()


def test_a_certificate_says_who_the_client_is() -> None:
    with tls_hosting(security(client_certificates="required")) as host:
        assert shake_hands_as(host, certificates.client("ana"))
        shown = host.sessions[0].endpoints.certificate
        assert shown is not None
        assert (shown.subject, shown.common_name, shown.user) == ("CN=ana", "ana", "CN=ana")


def test_required_means_required(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with tls_hosting(security(client_certificates="required")) as host:
        assert not shake_hands_as(host, None)
        assert not shake_hands_as(host, certificates.stranger())
        assert not shake_hands_as(host, certificates.client("late", -1))
        host.until(lambda: host.listener.traffic.handshakes_failed == 3)
        assert host.sessions == []
    assert "certificate not accepted: certificate has expired" in caplog.text


def test_optional_means_that_a_shown_one_must_be_right() -> None:
    with tls_hosting(security(client_certificates="optional")) as host:
        assert shake_hands_as(host, None)
        assert host.sessions[0].endpoints.certificate is None
        assert not shake_hands_as(host, certificates.stranger())
        assert shake_hands_as(host, certificates.client())


def test_none_asks_for_none_and_a_listener_may_differ() -> None:
    chosen = {"client_certificates": "required", "client_certificates_by_listener": ("echo+tls=none",)}
    with tls_hosting(security(**chosen)) as host:
        assert shake_hands_as(host, certificates.client())
        assert host.sessions[0].endpoints.certificate is None


@pytest.mark.parametrize(
    ("source", "rules", "expected"),
    [
        ("subject", "DEFAULT", "CN=ana"),
        ("common_name", "DEFAULT", "ana"),
        ("subject", "RULE:^CN=(.*)$/$1/U", "ANA"),
        ("subject", "RULE:^CN=bob$/bob/,RULE:^CN=(a)(.*),?.*$/$2-$1/L,DEFAULT", "na-a"),
        ("subject", r"RULE:CN=a\/b/c/", ""),
        ("dns", "DEFAULT", ""),
    ],
)
def test_rules_make_the_user(source: str, rules: str, expected: str) -> None:
    chosen = {"client_certificates": "required", "user_from": source, "user_rules": rules}
    with tls_hosting(security(**chosen)) as host:
        assert shake_hands_as(host, certificates.client("ana"))
        shown = host.sessions[0].endpoints.certificate
        assert shown is not None
        assert shown.user == expected


@pytest.mark.parametrize("rules", ["", "RULE:(/x/", "RULE:a/b", "default", "DEFAULT,x"])
def test_rules_that_are_none_are_refused(rules: str) -> None:
    with pytest.raises(ValueError):
        UserRules("subject", rules)


# Certificates of the broker -----------------------------------------------------------------------------------------


def served_name(host: TlsHost, name: str = "localhost") -> str:
    peer = TlsPeer(host.listener.address, client_context(), name)
    peer.shake_hands()
    shown = peer.tls.getpeercert()
    peer.close()
    assert shown is not None
    return dict(part[0] for part in shown["subject"])["commonName"]


def test_the_name_a_client_asks_for_chooses_the_certificate(tmp_path: Path) -> None:
    certificates.server("other").write(tmp_path, "other")
    with tls_hosting(security(certificates_directory=str(tmp_path))) as host:
        assert served_name(host, "other.example") == "other"
        assert served_name(host, "broker.example") == "broker"
        assert served_name(host) == "other", "its names hold localhost too"


def test_new_files_serve_new_connections_and_open_ones_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    certificate, key = certificates.server("broker").write(tmp_path, "server")
    with tls_hosting(security(certificate_file=str(certificate), key_file=str(key))) as host:
        credentials = host.listener.security.credentials
        assert credentials is not None
        peers = [open_peer(host) for _ in range(100)]
        assert served_name(host) == "broker"

        certificate.write_bytes(certificates.server("next").certificate_pem())  # its key comes later
        host.call(credentials.renew)
        host.call(credentials.renew)
        assert caplog.text.count("the certificates of before stay in use") == 1
        assert served_name(host) == "broker"

        certificates.server("next").write(tmp_path, "server")
        host.call(credentials.renew)
        assert served_name(host) == "next"

        certificate.unlink()
        host.call(credentials.renew)
        assert served_name(host) == "next"
        for index, peer in enumerate(peers):
            peer.socket.sendall(peer.seal(b"%d\n" % index))
            assert peer.read(len(b"%d\n" % index)) == b"%d\n" % index
            peer.close()


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    certificate, key = certificates.server().write(tmp_path, "server")
    key.chmod(0o644)
    with pytest.raises(TlsUnusable, match="others can read: chmod 600"):
        Credentials(TlsSettings(certificate_file=str(certificate), key_file=str(key)))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"key_file": None}, "needs tls.certificate_file and tls.key_file"),
        ({"key_file": "absent.key"}, "absent.key cannot be read"),
        ({"client_ca_file": None, "client_certificates": "required"}, "needs tls.client_ca_file"),
        ({"client_certificates_by_listener": ("kafka",)}, "LISTENER=none, optional or required"),
        ({"user_rules": "RULE:"}, "tls.user_rules"),
        ({"certificates_directory": "absent"}, "tls.certificates_directory cannot be read"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(TlsUnusable, match=problem):
        security(**settings)


# What comes before TLS ----------------------------------------------------------------------------------------------

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 9092\r\n"


def v2(common_name: bytes = b"", verified: bool = True) -> bytes:
    addresses = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + struct.pack(">HH", 4711, 9092)
    name = struct.pack(">BH", 0x22, len(common_name)) + common_name
    tls = struct.pack(">BI", 0x07, 0 if verified else 1) + name
    fields = struct.pack(">BH", 0x20, len(tls)) + tls if common_name else b""
    return SIGNATURE + struct.pack(">BBH", 0x21, 0x11, len(addresses + fields)) + addresses + fields


def proxied(encryption: Encryption, *networks: str) -> object:
    import ipaddress

    return security(encryption)._replace(proxies=tuple(map(ipaddress.ip_network, networks)))


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize("header", [V1, v2(), v2(b"ana"), v2(b"ana", verified=False)])
def test_a_trusted_proxy_says_who_its_client_is(header: bytes, step: int) -> None:
    with (
        tls_hosting(proxied(Encryption.NEVER, "127.0.0.0/8")) as host,
        socket.create_connection(host.listener.address, timeout=10) as client,
    ):
        data = header + b"a\n"
        for place in range(0, len(data), step):
            client.sendall(data[place : place + step])
        assert client.recv(10) == b"a\n"
        endpoints = host.sessions[0].endpoints
        assert endpoints[:4] == ("192.0.2.7", 4711, "198.51.100.1", 9092)
        assert endpoints.is_encrypted == (b"ana" in header)
        shown = endpoints.certificate
        assert (shown.user if shown is not None else "") == ("CN=ana" if header == v2(b"ana") else "")


def test_the_header_stands_before_tls() -> None:
    with tls_hosting(proxied(Encryption.ALWAYS, "127.0.0.1/32")) as host:
        peer = TlsPeer(host.listener.address, client_context())
        peer.socket.sendall(V1 + peer.hello())
        peer.receive_sealed()
        peer.shake_hands()
        peer.socket.sendall(peer.seal(b"a\n"))
        assert peer.read(2) == b"a\n"
        assert host.sessions[0].endpoints.peer == "192.0.2.7:4711"
        assert host.sessions[0].endpoints.is_encrypted
        peer.close()


def test_nobody_else_may_say_so() -> None:
    with (
        tls_hosting(proxied(Encryption.NEVER, "192.0.2.0/24")) as host,
        socket.create_connection(host.listener.address, timeout=10) as client,
    ):
        client.sendall(V1)
        assert client.recv(1000) == V1, "it is a line like others to the protocol"
        assert host.sessions[0].endpoints.peer_host == "127.0.0.1"


@pytest.mark.parametrize(
    "header",
    [
        b"a line without a header\n",
        V1.replace(b"TCP4", b"UDP4"),
        V1.replace(b"4711", b"99999"),
        b"PROXY " + b"x" * 200,
        v2()[:-4].replace(b"\x00\x0c", b"\x00\x08"),
        SIGNATURE + b"\x21\x11\xff\xff",
        SIGNATURE + b"\x29\x11\x00\x00",
        v2(b"ana")[:16].replace(b"\x00\x1a", b"\x00\x16") + v2(b"ana")[16:-4],
        v2(b"\xff\xfe"),
        v2(b"x" * 200),
    ],
)
def test_a_malformed_header_is_closed(header: bytes) -> None:
    with tls_hosting(proxied(Encryption.NEVER, "127.0.0.1/32")) as host:
        with (
            socket.create_connection(host.listener.address, timeout=10) as client,
            contextlib.suppress(ConnectionError),
        ):
            client.sendall(header)
            assert client.recv(10) == b""
        host.until(lambda: host.listener.traffic.handshakes_failed == 1)
        assert host.sessions == []


def test_a_proxy_may_look_whether_we_are_there() -> None:
    with (
        tls_hosting(proxied(Encryption.NEVER, "127.0.0.1/32")) as host,
        socket.create_connection(host.listener.address, timeout=10) as client,
    ):
        client.sendall(SIGNATURE + b"\x20\x00\x00\x00a\n")
        assert client.recv(10) == b"a\n"
        assert host.sessions[0].endpoints.peer_host == "127.0.0.1"


def test_one_port_takes_both_by_the_first_byte() -> None:
    with tls_hosting(security(Encryption.EITHER)) as host:
        with socket.create_connection(host.listener.address, timeout=10) as client:
            client.sendall(b"a\n")
            assert client.recv(10) == b"a\n"
        peer = open_peer(host, step=1)
        peer.socket.sendall(peer.seal(b"b\n"))
        assert peer.read(2) == b"b\n"
        assert [session.endpoints.is_encrypted for session in host.sessions] == [False, True]
        peer.close()
