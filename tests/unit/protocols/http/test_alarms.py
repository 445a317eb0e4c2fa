"""Alarms: raised and ended by rules, kept over restarts, told to a topic, to Prometheus and to a webhook."""

import http.server
import json
import threading
from typing import Any

import pytest

from mainstem.broker.alarms.book import AlarmBook, AlarmRule
from mainstem.broker.broker import Broker
from mainstem.broker.queues import DeadLetterTarget, QueueProperties, encode_headers
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.http_client import NOW_MS, Client, SteadyClock, with_client
from tests.support.worlds.brokers import with_engine
from tests.unit.protocols.http.measured import behind, samples


def test_an_alarm_is_raised_after_a_time_and_ends() -> None:
    book = AlarmBook()
    book.rules = {"r": AlarmRule("m", above=5, for_s=10), "low": AlarmRule("m", below=1, subject="b")}
    assert book.observe({"m": {"a": 6, "b": 2}}, 0) == []
    assert book.observe({"m": {"a": 7, "b": 2}}, 9_000) == []
    ((raised, is_raised),) = book.observe({"m": {"a": 8, "b": 2}}, 10_000)
    assert (raised.rule, raised.subject, raised.value, raised.since_ms, is_raised) == ("r", "a", 8, 0, True)
    assert book.observe({"m": {"a": 9, "b": 2}}, 11_000) == [], "raised once"
    assert book.observe({}, 12_000) == [], "nothing is known of it"
    changes = book.observe({"m": {"b": 0}}, 13_000)
    assert {(change.alarm.rule, change.is_raised) for change in changes} == {("r", False), ("low", True)}
    assert [change.is_raised for change in book.set_rule("low", None)] == [False]
    assert book.active == {}


@with_client
async def test_lag_and_dead_letters_raise_alarms(client: Client) -> None:
    await client.create("t")
    await client.publish("t", NOW_MS - 600_000)
    await behind(client, "g", "t")
    dead = await client.broker.queues.declare("default", "dead", QueueProperties())
    await client.broker.queues.declare("default", "q", QueueProperties(dead_letter=DeadLetterTarget("", "dead")))
    client.broker.queues.outbox.put([dead], encode_headers([]), b"v")
    await client.broker.queues.outbox.wait_durable()
    await client.ask("PUT", "/v1/alarms/rules/group-lag", {"measure": "group_lag_seconds", "above": 300})
    await client.broker.alarms.look()
    found = (await client.get("/v1/alarms"))["alarms"]
    assert {(alarm["rule"], alarm["subject"], alarm["value"]) for alarm in found} == {
        ("group-lag", "g", 600.0), ("dead-letters", "dead", 1.0)
    }  # fmt: skip
    measured = {labels for name, labels in await samples(client) if name == "mainstem_alarm"}
    assert measured == {("group-lag", "warning", "g"), ("dead-letters", "warning", "dead")}
    records = (await client.get("/v1/topics/mainstem.alarms/records"))["records"]
    assert {record["value"]["state"] for record in records} == {"raised"}
    await client.broker.queues.purge(dead)
    await client.ask("POST", "/v1/groups/g/seek", {"to": "end"})
    await client.broker.alarms.look()
    assert (await client.get("/v1/alarms"))["alarms"] == []
    records = (await client.get("/v1/topics/mainstem.alarms/records"))["records"]
    assert [record["value"]["state"] for record in records[2:]] == ["ended", "ended"]


@with_client
async def test_many_failed_logins_raise_an_alarm(client: Client) -> None:
    rule = {"measure": "live.failed_logins", "above": 1}
    await client.ask("PUT", "/v1/alarms/rules/failed-logins", rule)
    client.broker.live.sample()
    for number in range(5_000):
        client.broker.logins.failed("amqp", f"user-{number}", "10.0.0.1")
    client.broker.live.sample()
    await client.broker.alarms.look()
    assert [alarm["rule"] for alarm in (await client.get("/v1/alarms"))["alarms"]] == ["failed-logins"]
    client.broker.live.sample()
    await client.broker.alarms.look()
    assert (await client.get("/v1/alarms"))["alarms"] == []


def test_rules_last_over_a_restart() -> None:
    async def run(engine: MemoryEngine) -> None:
        client = Client(await Broker.open(engine, SteadyClock()))
        rule = {"measure": "live.records_in", "below": 1, "for_s": 60, "severity": "critical"}
        assert (await client.ask("PUT", "/v1/alarms/rules/quiet", rule)).status == 200
        assert (await client.ask("DELETE", "/v1/alarms/rules/disk-free")).status == 204
        client = Client(await Broker.open(engine, SteadyClock()))
        rules = (await client.get("/v1/alarms"))["rules"]
        assert rules["quiet"]["below"] == 1
        assert "disk-free" not in rules, "a default that is off stays off"
        assert "group-lag" in rules

    with_engine(run)()


@pytest.mark.parametrize(
    "rule",
    [{"measure": "x", "above": 1}, {"measure": "dead_letters"}, {"measure": "dead_letters", "above": 1, "below": 2}],
)
def test_a_rule_that_cannot_be_is_refused(rule: Any) -> None:
    @with_client
    async def run(client: Client) -> None:
        reply = await client.ask("PUT", "/v1/alarms/rules/r", rule)
        assert (reply.status, reply.problem) == (400, "invalid-rule")
        reply = await client.ask("DELETE", "/v1/alarms/rules/r")
        assert (reply.status, reply.problem) == (404, "unknown-rule")

    run()


def test_a_webhook_is_told_and_a_lost_one_does_no_harm() -> None:
    told: list[Any] = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        @with_client
        async def run(client: Client) -> None:
            client.broker.alarms.webhook = f"http://127.0.0.1:{server.server_port}/"
            await client.create("t")
            await client.publish("t", NOW_MS - 600_000)
            await behind(client, "g", "t")
            await client.ask("PUT", "/v1/alarms/rules/group-lag", {"measure": "group_lag_seconds", "above": 300})
            await client.broker.alarms.look()
            client.broker.alarms.webhook = "http://127.0.0.1:1/"
            await client.ask("DELETE", "/v1/alarms/rules/group-lag")

        run()
        server.shutdown()
    assert [change["state"] for message in told for change in message["changes"]] == ["raised"]
