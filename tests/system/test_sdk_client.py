"""The client of pipelines over the real program: it asks for no more than it needs, and finds a broker again that was away."""

from pathlib import Path
from typing import Any

import pytest

from mainstem.sdk.client import Client
from mainstem.sdk.connection import BrokerConnection
from mainstem.sdk.operations import TopicPartition
from mainstem.wire.kafka import ApiKey
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]

AT = TopicPartition("t", 0)


def test_a_coordinator_is_asked_for_once_until_it_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send = BrokerConnection.send

    def noting(connection: BrokerConnection, api_key: int, body: Any) -> None:
        sent.append(api_key)
        send(connection, api_key, body)

    monkeypatch.setattr(BrokerConnection, "send", noting)
    served = Served(tmp_path / "data")
    try:
        with Client(served.kafka, timeout_s=30.0) as client:
            client.cluster([AT.topic], create=True)
            for offset in range(3):
                client.commit("group", {AT: offset})
            assert sent.count(ApiKey.FIND_COORDINATOR) == 1
            served.restart()
            client.commit("group", {AT: 7})
            assert sent.count(ApiKey.FIND_COORDINATOR) == 2
            assert client.committed("group", [AT]) == {AT: 7}
    finally:
        served.kill()
