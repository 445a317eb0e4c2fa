"""A broker that is killed while many clients register: what it acknowledged is there, under one id each."""

import http.client
import json
import threading
import urllib.error
from pathlib import Path

import pytest

from tests.clients.schemas.serving import RegistryBroker, ask
from tests.support.serving.lasting_broker import closing

pytestmark = pytest.mark.conformance

CLIENTS = 6
CYCLES = 2
ACKNOWLEDGED_BEFORE_KILL = 40


class Load:
    """Clients that register, until the broker is gone."""

    def __init__(self, broker: RegistryBroker, cycle: int) -> None:
        self.acknowledged: dict[tuple[str, int], tuple[int, str]] = {}
        """Id and schema, by subject and version."""
        self.enough = threading.Event()
        self._broker = broker
        self._cycle = cycle
        self._threads = [threading.Thread(target=self._register, args=(client,)) for client in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _register(self, client: int) -> None:
        for number in range(1, 1_000):
            subject = f"s{self._cycle}-{client}-{number // 5}"
            fields = [{"name": f"f{field}", "type": "int", "default": self._cycle} for field in range(number)]
            schema = json.dumps({"type": "record", "name": "R", "fields": fields})
            try:
                reply = ask(self._broker.urls[0], "POST", f"/subjects/{subject}/versions", {"schema": schema})
            except (OSError, urllib.error.URLError, http.client.HTTPException, ValueError):
                return
            assert reply.status == 200, reply
            self.acknowledged[subject, reply.content["version"]] = reply.content["id"], schema
            if len(self.acknowledged) >= ACKNOWLEDGED_BEFORE_KILL:
                self.enough.set()


def test_what_was_acknowledged_survives_being_killed(tmp_path: Path) -> None:
    with closing(RegistryBroker(tmp_path / "data")) as broker:
        acknowledged: dict[tuple[str, int], tuple[int, str]] = {}
        for cycle in range(CYCLES):
            load = Load(broker, cycle)
            assert load.enough.wait(60)
            broker.kill()
            load.join()
            acknowledged |= load.acknowledged
            broker.start()
            found = {(one["subject"], one["version"]): one for one in broker.ask("GET", "/schemas").content}
            for place, (number, schema) in acknowledged.items():
                assert (found[place]["id"], json.loads(found[place]["schema"])) == (number, json.loads(schema))
        ids: dict[str, set[int]] = {}
        for number, schema in acknowledged.values():
            ids.setdefault(schema, set()).add(number)
        assert all(len(found) == 1 for found in ids.values())
        assert len({number for number, _ in acknowledged.values()}) == len(ids)


def test_fifty_clients_that_register_at_once_get_one_id(broker: RegistryBroker) -> None:
    schema = '{"type": "record", "name": "Storm", "fields": [{"name": "a", "type": "int"}]}'
    found: list[tuple[int, int]] = []
    begin = threading.Barrier(50)

    def register() -> None:
        begin.wait()
        content = broker.ask("POST", "/subjects/storm-value/versions", {"schema": schema}).content
        found.append((content["id"], content["version"]))

    threads = [threading.Thread(target=register) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 50
    assert len(set(found)) == 1
    assert broker.ask("GET", "/subjects/storm-value/versions").content == [1]
