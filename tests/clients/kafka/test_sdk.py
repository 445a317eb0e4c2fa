"""Our own client, against the real program."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.sdk.client import Client, InvalidAddress, parse_address
from mainstem.sdk.connection import BrokerConnection
from mainstem.sdk.credentials import MECHANISMS, Credentials
from mainstem.sdk.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    OffsetMissing,
    UnknownTopic,
)
from mainstem.sdk.operations import EARLIEST, LATEST, NO_OFFSET, TopicPartition, fetch, produce
from mainstem.wire.record_batch import decode_records, encode_batch
from tests.support.serving.kafka import Broker, serving

pytestmark = pytest.mark.conformance


def batch_of(*timestamps: int) -> bytearray:
    return encode_batch([(index, at, b"k", b"v%d" % at, ()) for index, at in enumerate(timestamps)])


def test_round_trip_of_raw_batches(broker: Broker) -> None:
    at = TopicPartition("sdk-raw", 0)
    with Client(broker.address) as client:
        assert client.cluster([at.topic], create=True).leaders[at.topic]
        connection = client.leader(at)
        assert produce(connection, at, batch_of(1000, 2000)).base_offset == 0
        assert produce(connection, at, batch_of(3000, 4000)).base_offset == 2
        fetched = fetch(connection, at, 1)
        assert (fetched.start, fetched.last_stable, fetched.end) == (0, 4, 4)
        assert [record.value for record in decode_records(fetched.batches)] == [b"v1000", b"v2000"]
        positions = {EARLIEST: 0, LATEST: 4, 1500: 1, 4001: NO_OFFSET}
        assert {asked: client.offsets({at: asked})[at] for asked in positions} == positions
        with pytest.raises(OffsetMissing, match="Offset 9 of sdk-raw-0"):
            fetch(connection, at, 9)
        client.commit("sdk-group", {at: 3})


def test_what_is_not_there(broker: Broker) -> None:
    with Client(broker.address) as client:
        with pytest.raises(UnknownTopic, match="Topic 'sdk-none' does not exist: create it"):
            client.partition_counts(["sdk-none"])
        assert "sdk-none" not in client.partition_counts()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(BrokerUnreachable, match=f"No broker answers at 127.0.0.1:{port}"):
        Client(f"127.0.0.1:{port}", timeout_s=0.2).partition_counts()


def test_addresses() -> None:
    assert parse_address("[::1]:1234") == ("::1", 1234)
    assert parse_address("host") == ("host", 9092)
    for wrong in ("", "host:", "host:0", "host:99999", "host:x"):
        with pytest.raises(InvalidAddress):
            parse_address(wrong)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\7\0\0\0\1\0\0\0"])
def test_what_is_no_broker_is_told_from_one(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reply() -> None:
            peer, _ = server.accept()
            peer.recv(1000)
            peer.sendall(answer)
            peer.close()

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(ConnectionLost):
            BrokerConnection("127.0.0.1", server.getsockname()[1], timeout_s=5)
        thread.join()


def test_a_broker_that_comes_back_is_found_again(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker, Client(broker.address) as client:
        client.cluster(["t"], create=True)
        broker.kill()
        back = threading.Timer(0.2, broker.start)
        back.start()
        assert client.partition_counts(["t"]) == {"t": 1}
        back.join()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("guarded")
    (directory / "password").write_text("secret, with = and ü\n")
    options = ("--set", "kafka.user=me,you=", "--set", f"kafka.password_file={directory / 'password'}")
    with serving(directory / "data", *options) as running:
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_credentials(guarded: Broker, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTEM_CLIENT_USER", "me,you=")
    monkeypatch.setenv("MAINSTEM_CLIENT_PASSWORD", "secret, with = and ü")
    monkeypatch.setenv("MAINSTEM_CLIENT_MECHANISM", mechanism)
    with Client(guarded.address) as client:
        assert client.partition_counts() == {}
    wrong = Credentials("me,you=", "guess", mechanism)
    assert "guess" not in repr(wrong)
    with Client(guarded.address, credentials=wrong) as client, pytest.raises(AuthenticationFailed) as refusal:
        client.partition_counts()
    assert "guess" not in str(refusal.value)
