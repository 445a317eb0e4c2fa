"""stomp.py with its defaults, in every version, and a WebSocket client; a kill in the middle of it all."""

import pytest
import stomp
import websocket

from tests.clients.stomp.serving import CLASSES, PATIENCE_S, Broker, connected

pytestmark = [pytest.mark.conformance, pytest.mark.system]

every_version = pytest.mark.parametrize("version", CLASSES)


@every_version
def test_what_is_sent_comes_back_with_its_headers(broker: Broker, name: str, version: str) -> None:
    with connected(broker, version) as (client, heard):
        client.subscribe(f"/queue/{name}", id="1")
        client.send(f"/queue/{name}", "grüße\n€", headers={"own": "a:b", "persistent": "true"}, receipt="r")
        assert heard.receipts.get(timeout=PATIENCE_S) == "r"
        frame = heard.messages.get(timeout=PATIENCE_S)
        assert frame.body == "grüße\n€"
        assert (frame.headers["own"], frame.headers["persistent"]) == ("a:b", "true")
        assert frame.headers["destination"] == f"/queue/{name}"


@every_version
def test_transactions_and_acknowledgements(broker: Broker, name: str, version: str) -> None:
    with connected(broker, version) as (client, heard):
        client.subscribe(f"/queue/{name}", id="1", ack="client-individual")
        for body, end in (("lost", client.abort), ("kept", client.commit)):
            transaction = client.begin()
            client.send(f"/queue/{name}", body, transaction=transaction)
            end(transaction)
        frame = heard.messages.get(timeout=PATIENCE_S)
        assert frame.body == "kept"
        if version == "1.2":
            client.ack(frame.headers["ack"], receipt="a")
        elif version == "1.1":
            client.ack(frame.headers["message-id"], "1", receipt="a")
        else:
            client.ack(frame.headers["message-id"])
            client.unsubscribe(id="1", receipt="a")
        assert heard.receipts.get(timeout=PATIENCE_S) == "a"
    with connected(broker, version) as (client, heard):
        client.subscribe(f"/queue/{name}", id="1")
        client.send(f"/queue/{name}", "last")
        assert heard.messages.get(timeout=PATIENCE_S).body == "last"


def test_heart_beats_keep_a_connection(broker: Broker, name: str) -> None:
    with connected(broker, heartbeats=(1_000, 1_000)) as (client, heard):
        client.subscribe(f"/queue/{name}", id="1")
        with connected(broker) as (other, _):
            for number in range(3):
                other.send(f"/queue/{name}", str(number))
                assert heard.messages.get(timeout=PATIENCE_S).body == str(number)
        assert heard.errors.empty()


def test_a_wrong_password_is_told(broker: Broker) -> None:
    client = CLASSES["1.2"]([broker.place(broker.stomp)])
    with pytest.raises(stomp.exception.ConnectFailedException):
        client.connect("guest", "wrong", wait=True)
    assert not client.is_connected()


def test_a_browser_speaks_it_by_websocket(broker: Broker, name: str) -> None:
    browser = websocket.create_connection(
        f"ws://{broker.web}/ws", timeout=PATIENCE_S, subprotocols=["v10.stomp", "v12.stomp"]
    )
    assert browser.getsubprotocol() == "v10.stomp"
    browser.send("CONNECT\naccept-version:1.2\nheart-beat:0,0\n\n\0")
    assert browser.recv().startswith("CONNECTED\n")
    browser.send(f"SUBSCRIBE\nid:1\ndestination:/queue/{name}\n\n\0SEND\ndestination:/queue/{name}\n\nhel")
    browser.send("lo\0")
    frame = browser.recv()
    assert isinstance(frame, str)
    assert frame.endswith("\n\nhello\0\n")
    browser.send_binary(f"SEND\ndestination:/queue/{name}\ncontent-length:2\n\n".encode() + b"\xff\0\0")
    assert browser.recv().endswith(b"\n\n\xff\0\0\n")
    browser.close()


@pytest.mark.parametrize(
    ("path", "origin", "status"), [("/other", None, 404), ("/ws", "https://elsewhere.example", 403)]
)
def test_pages_of_other_sites_stay_out(broker: Broker, path: str, origin: str | None, status: int) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException) as refusal:
        websocket.create_connection(f"ws://{broker.web}{path}", timeout=PATIENCE_S, origin=origin)
    assert refusal.value.status_code == status
