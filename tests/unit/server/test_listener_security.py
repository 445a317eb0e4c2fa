"""What the start refuses, and what each listener gets."""

from pathlib import Path

import pytest

from mainstem.server.lifecycle import Server, StartRefused
from mainstem.server.listener_security import ListenerSecurity
from mainstem.server.settings_resolution import resolve
from mainstem.server.settings_sources import Flags
from mainstem.transport.entrance import Encryption
from tests.support.serving import certificates

WIDE = ("kafka.anybody_from_anywhere=true", "http.anybody_from_anywhere=true")


def security(*assignments: str, listen: tuple[str, ...] = ()) -> ListenerSecurity:
    return ListenerSecurity(resolve(Flags(listen=listen, assignments=assignments), {}).settings)


def files(directory: Path) -> list[str]:
    return certificates.write(directory)[1::2]


@pytest.mark.parametrize("listener", ["kafka=0.0.0.0:0", "http=[::]:0", "kafka=192.0.2.1:0", "management=0.0.0.0:0"])
def test_clear_text_beyond_this_machine_is_refused_by_name(listener: str) -> None:
    with pytest.raises(ValueError, match=f"{listener.partition('=')[0]}=.*security.without_tls=true"):
        security(listen=(listener,)).check_clear_text()
    security("security.without_tls=true", listen=(listener,)).check_clear_text()


def test_the_server_asks_before_it_takes_anything(tmp_path: Path) -> None:
    flags = Flags(data_dir=str(tmp_path / "data"), listen=("http=0.0.0.0:0",), assignments=WIDE)
    with pytest.raises(StartRefused, match="clear text beyond this machine"):
        Server(resolve(flags, {}).settings, print)._create_listeners()
    assert not (tmp_path / "data").exists()


def test_tls_beyond_this_machine_needs_no_such_word(tmp_path: Path) -> None:
    security(*files(tmp_path), listen=("kafka+tls=0.0.0.0:9093",)).check_clear_text()


def test_tls_needs_a_certificate() -> None:
    with pytest.raises(ValueError, match=r"needs tls.certificate_file and tls.key_file"):
        security(listen=("kafka+tls=127.0.0.1:0",))


def test_some_protocols_take_both_on_one_port(tmp_path: Path) -> None:
    assert security().of("rocketmq").encryption is Encryption.NEVER
    found = security(*files(tmp_path))
    assert found.of("rocketmq").encryption is Encryption.EITHER
    assert found.of("rocketmq").terms.application_protocols == ("h2",)
    assert found.of("kafka").encryption is Encryption.NEVER


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        (("proxy.listeners=kafka",), "proxy.listeners needs proxy.trusted"),
        (("proxy.listeners=kafak", "proxy.trusted=10.0.0.0/8"), "proxy.listeners names 'kafak', which does not listen"),
        (("proxy.trusted=10.0.0.1/8",), "proxy.trusted: 10.0.0.1/8 has host bits set"),
    ],
)
def test_proxies_that_cannot_be_are_refused(assignments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        security(*assignments)


def test_a_rule_for_a_listener_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"client_certificates_by_listener names 'http.tls', which does not listen"):
        security(*files(tmp_path), "tls.client_certificates_by_listener=http+tls=none")
