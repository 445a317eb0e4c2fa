"""The broker is killed while clients send with receipts and acknowledge with receipts: nothing that was answered is lost."""

import contextlib
import threading
import time
from pathlib import Path

import pytest
import stomp

from tests.clients.stomp.serving import PATIENCE_S, Broker, connected, serving

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

KILLS = 4
LOAD_S = 0.6


def load(broker: Broker, run: int, confirmed: set[str], asked: set[str], settled: set[str]) -> None:
    """Send and acknowledge until the broker is gone; note what it has answered."""
    bodies: dict[str, str] = {}
    gone = threading.Event()
    with (
        contextlib.suppress(stomp.exception.StompException, OSError),
        connected(broker, reconnect_attempts_max=1) as (client, heard),
    ):
        heard.on_disconnected = gone.set
        client.subscribe("/queue/load", id="1", ack="client-individual", headers={"prefetch-count": "20"})
        number = 0
        while not gone.is_set():
            for _ in range(20):
                number += 1
                client.send("/queue/load", f"{run}-{number}", receipt=f"s{number}")
            while not heard.messages.empty():
                frame = heard.messages.get()
                bodies[f"a{frame.headers['ack']}"] = frame.body
                asked.add(frame.body)
                client.ack(frame.headers["ack"], receipt=f"a{frame.headers['ack']}")
            time.sleep(0.005)
    while not heard.receipts.empty():
        receipt = heard.receipts.get()
        if receipt.startswith("s"):
            confirmed.add(f"{run}-{receipt[1:]}")
        else:
            settled.add(bodies[receipt])


def test_kills_under_load_break_no_promise(tmp_path: Path) -> None:
    confirmed: set[str] = set()
    asked: set[str] = set()
    settled: set[str] = set()
    with serving(tmp_path / "data") as broker:
        for run in range(KILLS):
            worker = threading.Thread(target=load, args=(broker, run, confirmed, asked, settled))
            worker.start()
            time.sleep(LOAD_S)
            broker.kill()
            worker.join(PATIENCE_S)
            assert not worker.is_alive()
            broker.start()
        assert len(confirmed) > KILLS * 20
        assert len(settled) > KILLS * 10
        left: list[str] = []
        with connected(broker) as (client, heard):
            client.subscribe("/queue/load", id="1")
            client.send("/queue/load", "end")
            while (body := heard.messages.get(timeout=PATIENCE_S).body) != "end":
                left.append(body)
    assert len(left) == len(set(left))
    assert not settled & set(left), "settled, and given out again"
    assert confirmed <= asked | set(left), "confirmed, and lost"
